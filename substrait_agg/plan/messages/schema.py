"""The schema of all Substrait messages of all releases, used by the parsers of both encodings.

The published descriptors (package ``substrait-protobuf``) describe one release. This module adds
the fields of earlier and later releases under their own numbers, so that a field of a real plan is
never unknown. Sources of the numbers: the descriptors in the PyPI packages ``substrait`` 0.1.0 to
0.26.0 and ``substrait-protobuf`` 0.78.0 to 0.108.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from google.protobuf.descriptor import FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from substrait import plan_pb2

NEWEST_RELEASE = "0.108.0"
ANY = "google.protobuf.Any"
MESSAGE, ENUM = "message", "enum"

_SCALARS: dict[int, str] = {
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_MESSAGE: MESSAGE,
    FieldDescriptor.TYPE_ENUM: ENUM,
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message.

    Attributes:
        name: name in snake_case.
        kind: a scalar type of protobuf, ``message`` or ``enum``.
        repeated: whether the field is repeated.
        type: name of the message or enum without the package, else empty.
        oneof: name of its oneof, else empty.
        presence: whether a value equal to the default differs from no value.
    """

    name: str
    number: int
    kind: str
    repeated: bool = False
    type: str = ""
    oneof: str = ""
    presence: bool = False


@dataclass(slots=True)
class Shape:
    """The schema of a message: its fields by number, and by both of their JSON names."""

    name: str
    by_number: dict[int, Field] = field(default_factory=dict)
    by_json_name: dict[str, Field] = field(default_factory=dict)

    def add(self, new: Field) -> None:
        """Add a field under its number, its name and its camelCase name."""
        self.by_number[new.number] = new
        self.by_json_name[new.name] = new
        self.by_json_name[_camel(new.name)] = new


@dataclass(frozen=True, slots=True)
class Schema:
    """All messages and enums by their names without the package."""

    messages: dict[str, Shape]
    enums: dict[str, dict[str, int]]


# Message, number, name, kind (a scalar, or the name of a message), oneof. "*" marks a repeated field.
_OTHER_RELEASES: tuple[tuple[str, int, str, str, str], ...] = (
    # Extensions were named by URIs before URNs; removed in 0.85.
    ("extensions.SimpleExtensionURI", 1, "extension_uri_anchor", "uint32", ""),
    ("extensions.SimpleExtensionURI", 2, "uri", "string", ""),
    ("Plan", 1, "extension_uris", "*extensions.SimpleExtensionURI", ""),
    ("ExtendedExpression", 1, "extension_uris", "*extensions.SimpleExtensionURI", ""),
    (
        "extensions.SimpleExtensionDeclaration.ExtensionType",
        1, "extension_uri_reference", "uint32", "",
    ),
    (
        "extensions.SimpleExtensionDeclaration.ExtensionTypeVariation",
        1, "extension_uri_reference", "uint32", "",
    ),
    (
        "extensions.SimpleExtensionDeclaration.ExtensionFunction",
        1, "extension_uri_reference", "uint32", "",
    ),
    # Grouping expressions were inside each grouping; removed in 0.88.
    ("AggregateRel.Grouping", 1, "grouping_expressions", "*Expression", ""),
    # Times of fixed precision; removed in 0.88.
    ("Type.Timestamp", 1, "type_variation_reference", "uint32", ""),
    ("Type.Timestamp", 2, "nullability", "Type.Nullability", ""),
    ("Type.TimestampTZ", 1, "type_variation_reference", "uint32", ""),
    ("Type.TimestampTZ", 2, "nullability", "Type.Nullability", ""),
    ("Type.Time", 1, "type_variation_reference", "uint32", ""),
    ("Type.Time", 2, "nullability", "Type.Nullability", ""),
    ("Type", 14, "timestamp", "Type.Timestamp", "kind"),
    ("Type", 17, "time", "Type.Time", "kind"),
    ("Type", 29, "timestamp_tz", "Type.TimestampTZ", "kind"),
    ("Type", 31, "user_defined_type_reference", "uint32", "kind"),
    ("Expression.Literal", 14, "timestamp", "int64", "literal_type"),
    ("Expression.Literal", 17, "time", "int64", "literal_type"),
    ("Expression.Literal", 27, "timestamp_tz", "int64", "literal_type"),
    ("Expression.Literal.IntervalDayToSecond", 3, "microseconds", "int32", "precision_mode"),
    # Arguments were plain expressions, enumerations among them; removed in 0.93.
    ("AggregateFunction", 2, "args", "*Expression", ""),
    ("Expression.ScalarFunction", 2, "args", "*Expression", ""),
    ("Expression.WindowFunction", 8, "args", "*Expression", ""),
    ("Expression.Enum", 1, "specified", "string", "enum_kind"),
    ("Expression.Enum", 2, "unspecified", "Expression.Enum.Empty", "enum_kind"),
    ("Expression", 10, "enum", "Expression.Enum", "rex_type"),
    # Removed in 0.97 and 0.98.
    ("ReadRel.VirtualTable", 1, "values", "*Expression.Literal.Struct", ""),
    ("FetchRel", 3, "offset", "int64", "offset_mode"),
    ("FetchRel", 4, "count", "int64", "count_mode"),
    ("HashJoinRel", 4, "left_keys", "*Expression.FieldReference", ""),
    ("HashJoinRel", 5, "right_keys", "*Expression.FieldReference", ""),
    ("MergeJoinRel", 4, "left_keys", "*Expression.FieldReference", ""),
    ("MergeJoinRel", 5, "right_keys", "*Expression.FieldReference", ""),
    # Only in 0.105 and 0.106.
    ("PlanRel", 3, "detached_expressions", "*Expression", ""),
    ("ExtendedExpression", 9, "detached_expressions", "*Expression", ""),
    ("Expression", 18, "detached_expression_ordinal", "uint32", "rex_type"),
    # Since 0.107.
    ("PlanRel", 4, "detached_rels", "*Rel", ""),
    ("ExtendedExpression", 10, "detached_rels", "*Rel", ""),
    ("Rel", 25, "detached_rel_ordinal", "uint32", "rel_type"),
    ("Expression.NamedLambdaReference", 1, "lambda_reference", "uint32", ""),
    ("Expression", 19, "named_lambda_reference", "Expression.NamedLambdaReference", "rex_type"),
    (
        "Expression.LambdaInvocation",
        3, "named_lambda", "Expression.NamedLambdaReference", "lambda_type",
    ),
    ("NamedLambda", 1, "lambda_anchor", "uint32", ""),
    ("NamedLambda", 2, "lambda", "Expression.Lambda", ""),
    ("NamedLambda", 3, "name", "string", "_name"),
    ("Plan", 11, "named_lambdas", "*NamedLambda", ""),
)  # fmt: skip

SINGLE_BEFORE: dict[tuple[str, str], int] = {("extensions.AdvancedExtension", "optimization"): 50}
"""Repeated field -> the minor version that made it repeated.

Before, JSON has an object, not a list.
"""

_OTHER_EMPTY_MESSAGES = ("Expression.Enum.Empty",)

# Enum values that were renamed: both names are read in JSON.
_RENAMED_VALUES = (
    ("JoinRel.JoinType", "JOIN_TYPE_SEMI", 5),
    ("JoinRel.JoinType", "JOIN_TYPE_ANTI", 6),
    ("JoinRel.JoinType", "JOIN_TYPE_SINGLE", 7),
    ("WriteRel.OutputMode", "OUTPUT_MODE_MODIFIED_TUPLES", 2),
)


VALUE_REMOVED_IN: dict[tuple[str, str], int] = {
    ("JoinRel.JoinType", name): 54
    for name in ("JOIN_TYPE_SEMI", "JOIN_TYPE_ANTI", "JOIN_TYPE_SINGLE")
}
"""Name of an enum value -> the minor version that removed the name, but not the value."""


@cache
def schema() -> Schema:
    """Return the combined schema of all releases, computed once per process."""
    return schema_of(plan_pb2.DESCRIPTOR)


@cache
def enum_names(kind: str) -> Mapping[int, str]:
    """Return the first name of each value of an enum, by number."""
    return {number: name for name, number in reversed(schema().enums.get(kind, {}).items())}


def schema_of(plan: FileDescriptor) -> Schema:
    """Return the schema of one release, extended by the fields of other releases.

    Raises:
        KeyError: the release has a field of a scalar type that no release before it had.
    """
    result = Schema({}, {})
    for file in _files(plan):
        package = file.package.removeprefix("substrait").removeprefix(".")
        prefix = f"{package}." if package else ""
        for message in file.message_type:
            _add_message(result, prefix, message)
        for enum in file.enum_type:
            _add_enum(result, prefix, enum)
    for name in _OTHER_EMPTY_MESSAGES:
        result.messages.setdefault(name, Shape(name))
    for owner, number, name, kind, oneof in _OTHER_RELEASES:
        shape = result.messages.setdefault(owner, Shape(owner))
        if number not in shape.by_number:
            shape.add(_other_field(result, number, name, kind, oneof))
    for enum_name, value_name, value in _RENAMED_VALUES:
        result.enums[enum_name].setdefault(value_name, value)
    return result


def _files(plan: FileDescriptor) -> Iterator[FileDescriptorProto]:
    """Yield the plan's file and all files it imports, each once."""
    pending, seen = [plan], {plan.name}
    while pending:
        file = pending.pop()
        copy = FileDescriptorProto()
        file.CopyToProto(copy)
        yield copy
        for needed in file.dependencies:
            if needed.name not in seen:
                seen.add(needed.name)
                pending.append(needed)


def _add_message(result: Schema, prefix: str, message: DescriptorProto) -> None:
    shape = Shape(prefix + message.name)
    result.messages[shape.name] = shape
    for item in message.field:
        repeated = item.label == FieldDescriptorProto.LABEL_REPEATED
        in_oneof = item.HasField("oneof_index")
        kind = _SCALARS[item.type]
        shape.add(
            Field(
                name=item.name,
                number=item.number,
                kind=kind,
                repeated=repeated,
                type=item.type_name.removeprefix(".").removeprefix("substrait."),
                oneof=message.oneof_decl[item.oneof_index].name if in_oneof else "",
                presence=not repeated and (in_oneof or kind == MESSAGE),
            )
        )
    for nested in message.nested_type:
        _add_message(result, f"{shape.name}.", nested)
    for enum in message.enum_type:
        _add_enum(result, f"{shape.name}.", enum)


def _add_enum(result: Schema, prefix: str, enum: EnumDescriptorProto) -> None:
    result.enums[prefix + enum.name] = {value.name: value.number for value in enum.value}


def _other_field(result: Schema, number: int, name: str, kind: str, oneof: str) -> Field:
    repeated, kind = kind.startswith("*"), kind.lstrip("*")
    scalar = kind in _SCALARS.values()
    is_enum = kind in result.enums
    return Field(
        name=name,
        number=number,
        kind=kind if scalar else ENUM if is_enum else MESSAGE,
        repeated=repeated,
        type="" if scalar else kind,
        oneof=oneof,
        presence=not repeated and (bool(oneof) or not (scalar or is_enum)),
    )


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)
