"""Protobuf classes that have the fields of every release, so that plans of every producer can be changed.

The published classes know one release: what DataFusion still writes of older ones would be lost in JSON, and could not
be planted. The classes made here have those fields too, under their own numbers, in a descriptor pool of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from substrait import plan_pb2

from substrait_agg.plan.messages.schema import ENUM, MESSAGE, Field, Shape, schema

_KINDS = {
    kind: getattr(FieldDescriptorProto, f"TYPE_{kind.upper()}")
    for kind in (
        "bool", "int32", "int64", "uint32", "uint64", "float", "double", "string", "bytes",
        MESSAGE, ENUM,
    )
}  # fmt: skip


def new_plan() -> Any:
    """An empty ``Plan`` message."""
    return _plan_class()()


@cache
def _plan_class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    files = [_copy(file) for file in _files(plan_pb2.DESCRIPTOR)]
    messages = {
        name: message
        for file in files
        if file.package.startswith("substrait")
        for name, message in _messages(file)
    }
    ours = {n: s for n, s in schema().messages.items() if not n.startswith("google.")}
    for name in sorted(ours, key=lambda n: n.count(".")):
        _complete(name, ours[name], messages, files)
    for file in files:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("substrait.Plan"))


def _files(file: FileDescriptor, seen: set[str] | None = None) -> Iterator[FileDescriptor]:
    """The file and all that it imports, imports first."""
    seen = set() if seen is None else seen
    if file.name in seen:
        return
    seen.add(file.name)
    for needed in file.dependencies:
        yield from _files(needed, seen)
    yield file


def _copy(file: FileDescriptor) -> FileDescriptorProto:
    copy = FileDescriptorProto()
    file.CopyToProto(copy)
    return copy


def _messages(file: FileDescriptorProto) -> Iterator[tuple[str, DescriptorProto]]:
    """All messages of a file by their names without ``substrait``."""
    package = file.package.removeprefix("substrait").removeprefix(".")
    waiting = [(f"{package}." if package else "", m) for m in file.message_type]
    while waiting:
        prefix, message = waiting.pop()
        name = prefix + message.name
        yield name, message
        waiting.extend((f"{name}.", inner) for inner in message.nested_type)


def _complete(
    name: str, shape: Shape, messages: dict[str, DescriptorProto], files: list[FileDescriptorProto]
) -> None:
    """Put the fields, or the whole message, that the published descriptors do not have."""
    message = messages.get(name)
    if message is None:
        owner, _, own = name.rpartition(".")
        last = "extensions.proto" if owner == "extensions" else "algebra.proto"
        file = next(f for f in files if f.name.endswith(last))
        inside = messages[owner].nested_type if owner in messages else file.message_type
        message = messages[name] = inside.add(name=own)
    del message.reserved_range[:], message.reserved_name[:]
    known = {item.number for item in message.field}
    for number, item in shape.by_number.items():
        if number not in known:
            _add(message, item)


def _add(message: DescriptorProto, item: Field) -> None:
    new = message.field.add(name=item.name, number=item.number, type=_KINDS[item.kind])
    new.label = (
        FieldDescriptorProto.LABEL_REPEATED
        if item.repeated
        else FieldDescriptorProto.LABEL_OPTIONAL
    )
    if item.type:
        new.type_name = f".substrait.{item.type}"
    if item.oneof:
        names = [one.name for one in message.oneof_decl]
        if item.oneof not in names:
            message.oneof_decl.add(name=item.oneof)
            names.append(item.oneof)
        new.oneof_index = names.index(item.oneof)
