"""Convert a flow to text and back, for the plan document of a checkpoint.

With the flow, tools can compute what operators store without the plan and the options of the run.
Classes have tags of their own. A value that has its default is left out, so that a field that is
added later does not make older documents unreadable.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from substrait_agg.bind import bound
from substrait_agg.bind.deep_stack import deep_call
from substrait_agg.flow.graph import graph, nodes
from substrait_agg.flow.graph.time_steps import EventKey, TimeStep
from substrait_agg.flow.graph.window import WindowColumn
from substrait_agg.functions.aggregates.accumulators import Accumulator
from substrait_agg.operator.registry import OPERATORS
from substrait_agg.plan.types import Type

MOST_BYTES = 1 << 26
"""Limit of the size of the JSON text of a flow."""

_TAG = "class"

_CLASSES: Mapping[str, type[Any]] = {
    "flow": nodes.Flow, "view": nodes.FlowView, "sort": bound.SortKey, "port": nodes.Port,
    **{kind.__name__: kind for kind in OPERATORS}, "window_column": WindowColumn, "frame": bound.Frame,
    "branch": graph.Branch, "filter": graph.FilterStep, "project": graph.ProjectStep,
    "unnest": graph.UnnestStep,
    "table": graph.TableOrigin, "rows": graph.RowsOrigin, "operator": graph.OperatorOrigin,
    "feedback": graph.FeedbackOrigin,
    "upsert_source": graph.UpsertSource, "user_column": graph.UserColumn, "groups": graph.StatePerGroup,
    "arrivals": graph.ArrivalTree, "component": graph.TreeComponent, "tree": graph.ValueTree,
    "measure_state": graph.MeasureState, "accumulator": Accumulator,
    "event_key": EventKey, "time_step": TimeStep, "type": Type,
    "measure": bound.BoundMeasure, "measure_sort": bound.MeasureSort,
    "constant": bound.Constant, "column": bound.Column, "nested_part": bound.NestedPart,
    "call": bound.Call, "conversion": bound.Conversion, "conditional": bound.Conditional,
    "in": bound.InList, "nested": bound.BoundNestedValue, "lambda": bound.BoundLambda,
    "parameter": bound.LambdaParameter,
}  # fmt: skip
"""The classes of a flow by their tags, which never change."""

_TAGS = {kind: tag for tag, kind in _CLASSES.items()}


def flow_text(flow: nodes.Flow) -> str:
    """Return a flow as text."""
    return deep_call(_text, flow)


def parse_flow(text: str) -> nodes.Flow:
    """Return the flow that `flow_text` wrote.

    Raises:
        ValueError, TypeError, KeyError: the text is damaged, or another release has written it.
    """
    return deep_call(_parse, text)


def _text(flow: nodes.Flow) -> str:
    content = json.dumps(_encode(flow), separators=(",", ":"), ensure_ascii=True)
    return base64.b64encode(zlib.compress(content.encode("ascii"), 9)).decode("ascii")


def _parse(text: str) -> nodes.Flow:
    flow = _decode(_content(text))
    if not isinstance(flow, nodes.Flow):
        raise TypeError("it is no flow")
    return flow


def _content(text: str) -> Any:
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(base64.b64decode(text, validate=True), MOST_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpacking.eof:
        raise ValueError("the flow is incomplete or too large")
    return json.loads(content)


def differing_parts(before: str, now: str) -> list[str]:
    """Return where two flows differ, and how, in the words of their fields.

    Paths in the plan do not count. The list is empty if one of the texts is, or cannot be read.
    """
    if not (before and now):
        return []
    try:
        return list(deep_call(lambda: list(_parts("", _content(before), _content(now)))))
    except (ValueError, TypeError, KeyError):
        return []


_NO_DIFFERENCE = frozenset({"path", "fingerprint", "id"})
_SHOWN_TEXT = 60
_NAMED = {"operators": "operator", "views": "view", "measures": "measure", "inputs": "input"}


def _parts(place: str, before: Any, now: Any) -> Iterator[str]:
    if before == now:
        return
    of_one_kind = type(before) is type(now)
    if of_one_kind and isinstance(now, dict) and before.get(_TAG) == now.get(_TAG):
        for name in sorted({*before, *now} - _NO_DIFFERENCE):
            yield from _parts(f"{place} {name}".lstrip(), before.get(name), now.get(name))
    elif of_one_kind and isinstance(now, list) and len(before) == len(now):
        field = place.rpartition(" ")[2]
        one = place.removesuffix(field) + _NAMED.get(field, field)
        for number, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from _parts(f"{one} {number}", old, new)
    else:
        yield f"{place} was {_brief(before)} and is {_brief(now)}"


def _brief(value: Any) -> str:
    """Return an encoded value as a short text."""
    if isinstance(value, dict):
        return str(value.get("function", value.get("kind", value[_TAG])))
    if isinstance(value, list):
        return f"{len(value)} parts"
    text = "nothing" if value is None else str(value)
    return text if len(text) <= _SHOWN_TEXT else f"{text[:_SHOWN_TEXT]}..."


@cache
def _defaults(kind: Any) -> dict[str, Any]:
    """Return the fields of a class that the constructor takes, with their defaults."""
    return {
        f.name: f.default if f.default_factory is MISSING else f.default_factory()
        for f in fields(kind)
        if f.init
    }


def _encode(value: Any) -> Any:
    kind: Any = type(value)
    if kind in _TAGS:
        defaults = _defaults(kind)
        pairs = ((name, getattr(value, name)) for name in defaults)
        return {
            _TAG: _TAGS[kind],
            **{n: _encode(v) for n, v in pairs if not _same(v, defaults[n])},
        }
    if isinstance(value, tuple | list):
        return [_encode(item) for item in value]
    if isinstance(value, bytes):
        return {_TAG: "bytes", "hex": value.hex()}
    if isinstance(value, float):
        return {_TAG: "float", "hex": value.hex()}
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(type(value).__name__)


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_decode, value))
    if not isinstance(value, dict):
        return value
    body = {name: _decode(item) for name, item in value.items() if name != _TAG}
    if value[_TAG] == "bytes":
        return bytes.fromhex(body["hex"])
    if value[_TAG] == "float":
        return float.fromhex(body["hex"])
    return _CLASSES[value[_TAG]](**body)
