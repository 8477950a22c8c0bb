"""Types, values and expressions as protobuf-JSON of the newest release, for plans made from test cases."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from substrait_agg.plan.types import Type
from tests.conformance.cases import Argument, Call, ColumnRef, Enum, Lambda, Literal, Parameter

Json = dict[str, Any]

UNSIGNED = ("u8", "u16", "u32", "u64")
_UNSIGNED_URN = "unsigned_integers"
_NAMES = {
    "interval_year": "intervalYear", "interval_day": "intervalDay",
    "interval_compound": "intervalCompound", "fixedchar": "fixedChar",
    "fixedbinary": "fixedBinary", "precision_time": "precisionTime",
    "precision_timestamp": "precisionTimestamp",
    "precision_timestamp_tz": "precisionTimestampTz",
}  # fmt: skip
_LENGTH = ("fixedchar", "varchar", "fixedbinary")


def nullability(type_: Type) -> str:
    """The word for it."""
    return "NULLABILITY_NULLABLE" if type_.nullable else "NULLABILITY_REQUIRED"


def column(ordinal: int) -> Json:
    """A column of the input row."""
    return _reference(ordinal, rootReference={})


def _reference(ordinal: int, **root: Json) -> Json:
    return {"selection": {"directReference": {"structField": {"field": ordinal}}, **root}}


@dataclass
class Declarations:
    """The extensions, functions and types that a plan declares; anchors count from 1."""

    urns: list[str] = field(default_factory=list)
    items: list[tuple[str, str, str]] = field(default_factory=list)

    def anchor(self, kind: str, urn: str, name: str) -> int:
        """The anchor of a ``Function`` or ``Type``, declared once."""
        if urn not in self.urns:
            self.urns.append(urn)
        if (kind, urn, name) not in self.items:
            self.items.append((kind, urn, name))
        return self.items.index((kind, urn, name)) + 1

    def plan(self, relation: Json, names: Sequence[str]) -> str:
        """The whole plan."""
        return json.dumps(
            {
                "version": {"minorNumber": 106, "producer": "tests"},
                "extensionUrns": [
                    {"extensionUrnAnchor": i, "urn": f"extension:io.substrait:{urn}"}
                    for i, urn in enumerate(self.urns, 1)
                ],
                "extensions": [
                    {
                        f"extension{kind}": {
                            "extensionUrnReference": self.urns.index(urn) + 1,
                            f"{kind.lower()}Anchor": anchor,
                            "name": name,
                        }
                    }
                    for anchor, (kind, urn, name) in enumerate(self.items, 1)
                ],
                "relations": [{"root": {"input": relation, "names": list(names)}}],
            }
        )

    # --- types ---------------------------------------------------------------------------------

    def type(self, type_: Type) -> Json:
        """A ``Type`` message."""
        body: Json = {"nullability": nullability(type_)}
        kind = type_.kind
        if kind in UNSIGNED:
            return {
                "userDefined": body | {"typeReference": self.anchor("Type", _UNSIGNED_URN, kind)}
            }
        inner = [self.type(child) for child in type_.children]
        if kind in _LENGTH:
            body["length"] = type_.params[0]
        elif kind == "decimal":
            body |= {"precision": type_.params[0], "scale": type_.params[1]}
        elif type_.params:
            body["precision"] = type_.params[0]
        elif kind == "list":
            body["type"] = inner[0]
        elif kind == "map":
            body |= {"key": inner[0], "value": inner[1]}
        elif kind == "struct":
            body["types"] = inner
        elif kind == "func":
            body |= {"returnType": inner[0], "parameterTypes": inner[1:]}
        return {_NAMES.get(kind, kind): body}

    # --- values --------------------------------------------------------------------------------

    def literal(self, value: Any, type_: Type) -> Json:
        """A ``Literal`` message."""
        if value is None:
            return {"null": self.type(type_.as_nullable())}
        made = self._nested(value, type_) or _WRITERS[type_.kind](value, type_)
        return {**made, "nullable": type_.nullable}

    def _nested(self, value: Any, type_: Type) -> Json | None:
        if type_.kind in UNSIGNED:
            held = {"fields": [{"string": str(value)}]}
            anchor = self.anchor("Type", _UNSIGNED_URN, type_.kind)
            return {"userDefined": {"typeReference": anchor, "struct": held}}
        if type_.kind == "list" and not value:
            return {"emptyList": self.type(type_)["list"]}
        if type_.kind == "list":
            return {"list": {"values": [self.literal(v, type_.children[0]) for v in value]}}
        if type_.kind == "struct":
            pairs = zip(value, type_.children, strict=True)
            return {"struct": {"fields": [self.literal(v, t) for v, t in pairs]}}
        return None

    # --- expressions -----------------------------------------------------------------------------

    def function(
        self,
        call: Call,
        signature: tuple[str, str],
        output: Type | None,
        options: Sequence[tuple[str, str]] = (),
        scope: Mapping[str, int] | None = None,
    ) -> Json:
        """The fields that scalar and aggregate functions share.

        Args:
            call: function and arguments.
            signature: the extension that declares it, and its name with signature.
            output: the type it is declared to have, None to leave it out.
            options: name and value.
            scope: ordinals of the parameters of the lambda around it.
        """
        body: Json = {
            "functionReference": self.anchor("Function", *signature),
            "arguments": [self.argument(a, signature[0], scope or {}) for a in call.arguments],
        }
        if options:
            body["options"] = [{"name": n, "preference": [v]} for n, v in options]
        if output is not None:
            body["outputType"] = self.type(output)
        return body

    def argument(self, argument: Argument, urn: str, scope: Mapping[str, int]) -> Json:
        """A ``FunctionArgument`` message; calls inside are taken to be from the extension `urn`."""
        if isinstance(argument, Enum):
            return {"enum": argument.word}
        return {"value": self.expression(argument, urn, scope)}

    def expression(self, argument: Argument, urn: str, scope: Mapping[str, int]) -> Json:
        """An ``Expression`` message."""
        if isinstance(argument, Literal):
            return {"literal": self.literal(argument.value, argument.type)}
        if isinstance(argument, ColumnRef):
            return column(argument.ordinal)
        if isinstance(argument, Parameter):
            root = {"stepsOut": 0}
            return _reference(scope[argument.name], lambdaParameterReference=root)
        if isinstance(argument, Lambda):
            return self._lambda(argument, urn)
        if isinstance(argument, Call):
            body = self.function(argument, (urn, argument.function), None, (), scope)
            return {"scalarFunction": body}
        message = f"{argument} is no expression"
        raise TypeError(message)

    def _lambda(self, written: Lambda, urn: str) -> Json:
        inner = {name: i for i, name in enumerate(written.parameters)}
        types = [self.type(t) for t in written.type.children[1:]]
        return {
            "lambda": {
                "parameters": {"types": types, "nullability": "NULLABILITY_REQUIRED"},
                "body": self.expression(written.body, urn, inner),
            }
        }


def _float(value: float, type_: Type) -> Json:
    if math.isnan(value):
        return {type_.kind: "NaN"}
    if math.isinf(value):
        return {type_.kind: "Infinity" if value > 0 else "-Infinity"}
    return {type_.kind: value}


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _decimal(value: int, type_: Type) -> Json:
    precision, scale = type_.params
    raw = _bytes(value.to_bytes(16, "little", signed=True))
    return {"decimal": {"value": raw, "precision": precision, "scale": scale}}


def _precise(value: int, type_: Type) -> Json:
    return {_NAMES[type_.kind]: {"value": str(value), "precision": type_.params[0]}}


def _day_parts(days: int, ticks: int, digits: int) -> Json:
    seconds, rest = divmod(ticks, 10**digits)
    return {"days": days, "seconds": seconds, "subseconds": str(rest), "precision": digits}


def _compound(value: tuple[int, int, int], type_: Type) -> Json:
    months, days, ticks = value
    return {
        "intervalCompound": {
            "intervalYearToMonth": {"months": months},
            "intervalDayToSecond": _day_parts(days, ticks, type_.params[0]),
        }
    }


_WRITERS: dict[str, Callable[[Any, Type], Json]] = {
    "bool": lambda v, _t: {"boolean": v},
    **dict.fromkeys(("i8", "i16", "i32", "date", "string"), lambda v, t: {t.kind: v}),
    "i64": lambda v, _t: {"i64": str(v)},
    **dict.fromkeys(("fp32", "fp64"), _float),
    "binary": lambda v, _t: {"binary": _bytes(v)},
    "fixedbinary": lambda v, _t: {"fixedBinary": _bytes(v)},
    "fixedchar": lambda v, _t: {"fixedChar": v},
    "varchar": lambda v, t: {"varChar": {"value": v, "length": t.params[0]}},
    "decimal": _decimal,
    **dict.fromkeys(("precision_time", "precision_timestamp", "precision_timestamp_tz"), _precise),
    "interval_year": lambda v, _t: {"intervalYearToMonth": {"months": v}},
    "interval_day": lambda v, t: {"intervalDayToSecond": _day_parts(v[0], v[1], t.params[0])},
    "interval_compound": _compound,
}
