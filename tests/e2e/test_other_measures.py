"""Measures that DataFusion does not write, through Spark: by bare names, as other engines spell them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

import substrait_agg as sa
from tests.e2e.files import write_in_order
from tests.e2e.plans import column, literal
from tests.e2e.running import starting

X, Y, TAGS = column(1), column(2), column(3)
EXACT = {"enum": "EXACT"}

CALLS: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "min_by": ("min_by", [X, Y], {}),
    "max_by": ("max_by", [X, Y], {}),
    "tags": ("list_union_distinct_agg", [TAGS], {}),
    "surrogate": ("surrogate_key_int64", [], {}),
    "first": ("first", [X], {}),
    "last": ("last", [X], {}),
    "key": ("key", [column(0)], {}),
    "mode": ("mode", [X], {}),
    "product": ("product", [X], {}),
    "any": ("any_value", [X], {}),
    "list": ("list_agg", [X], {}),
    "distinct": ("count_distinct", [X], {}),
    "median": ("median", [EXACT, X], {}),
    "quantile": (
        "quantile",
        [{"enum": "BOTH"}, EXACT, literal("i64", 2), X],
        {"sorts": [{"expr": X, "direction": "SORT_DIRECTION_ASC_NULLS_LAST"}]},
    ),
    "disc": ("percentile_disc", [X, literal("fp64", 0.5)], {}),
    "sum": ("sum", [X], {"invocation": "AGGREGATION_INVOCATION_DISTINCT"}),
}
"""Name of the column -> function, arguments, and more of the message."""

Row = tuple[str, int | None, int, list[str | None] | None]
BATCHES: list[list[tuple[Row, str]]] = [
    [
        (("a", 5, 1, ["u", "v"]), "insert"), (("a", 3, 2, ["v", None]), "insert"),
        (("a", 5, 3, None), "insert"), (("b", 7, 1, []), "insert"),
    ],
    [(("a", 5, 1, ["u", "v"]), "delete"), (("a", 9, 0, ["w"]), "insert"), (("b", 7, 1, []), "delete")],
    [(("a", 5, 3, None), "delete"), (("b", None, 4, ["z"]), "insert")],
]  # fmt: skip

A = {
    1: {
        "min_by": 5, "max_by": 5, "tags": [None, "u", "v"], "first": 5, "last": 5, "key": "a", "mode": 5,
        "product": 75, "any": 3, "list": [3, 5, 5], "distinct": 2, "median": 5, "quantile": [3, 5, 5], "disc": 5,
        "sum": 8,
    },
    2: {
        "min_by": 9, "max_by": 5, "tags": [None, "v", "w"], "first": 5, "last": 9, "key": "a", "mode": 3,
        "product": 135, "any": 3, "list": [3, 5, 9], "distinct": 3, "median": 5, "quantile": [3, 5, 9], "disc": 5,
        "sum": 17,
    },
    3: {
        "min_by": 9, "max_by": 3, "tags": [None, "v", "w"], "first": 3, "last": 9, "key": "a", "mode": 3,
        "product": 27, "any": 3, "list": [3, 9], "distinct": 2, "median": 6, "quantile": [3, 6, 9], "disc": 3,
        "sum": 12,
    },
}  # fmt: skip
"""What group a shows at each version, worked out by hand."""


def _plan() -> str:
    functions = list(dict.fromkeys(name for name, _, _ in CALLS.values()))
    measures = [
        {
            "measure": {
                "functionReference": functions.index(name) + 1,
                "arguments": [a if "enum" in a else {"value": a} for a in arguments],
                "phase": "AGGREGATION_PHASE_INITIAL_TO_RESULT",
                **more,
            }
        }
        for name, arguments, more in CALLS.values()
    ]
    optional = {"nullability": "NULLABILITY_NULLABLE"}
    types: list[dict[str, Any]] = [{"string": optional}, {"i64": optional}, {"i64": optional}]
    types.append({"list": {**optional, "type": {"string": optional}}})
    struct: dict[str, Any] = {"types": types, "nullability": "NULLABILITY_REQUIRED"}
    read: dict[str, Any] = {
        "baseSchema": {"names": ["k", "x", "y", "tags"], "struct": struct},
        "namedTable": {"names": ["t"]},
    }
    aggregate: dict[str, Any] = {
        "input": {"read": read},
        "groupingExpressions": [column(0)],
        "groupings": [{"expressionReferences": [0]}],
        "measures": measures,
    }
    declared = [
        {"extensionFunction": {"functionAnchor": i, "name": n}} for i, n in enumerate(functions, 1)
    ]
    root = {"input": {"aggregate": aggregate}, "names": ["k", *CALLS]}
    return json.dumps({"extensions": declared, "relations": [{"root": root}]})


def _file(batch: list[tuple[Row, str]]) -> pa.Table:
    types = {"k": pa.string(), "x": pa.int64(), "y": pa.int64(), "tags": pa.list_(pa.string())}
    cells = {n: pa.array([row[i] for row, _ in batch], t) for i, (n, t) in enumerate(types.items())}
    return pa.table({**cells, "op": pa.array([op for _, op in batch])})


def test_every_version_is_as_worked_out_by_hand(tmp_path: Path) -> None:
    """Versions equal rows computed by hand, after deletions of the first row, of extremes and of a
    whole group, and with a returning group of nulls.
    """
    write_in_order(tmp_path / "in", [_file(batch) for batch in BATCHES])
    views: dict[int, dict[str, dict[str, Any]]] = {}

    def keep(progress: Any) -> None:
        rows = sa.open_view(tmp_path / "ck").to_arrow(progress.version).to_pylist()
        views[progress.version] = {row.pop("k"): row for row in rows}

    source = {"t": f"parquet:{tmp_path / 'in'}?op=op&batch-files=1"}
    starting(None)(_plan(), source, checkpoint=tmp_path / "ck", partitions=2, progress=keep).wait()
    keys = {v: {k: row.pop("surrogate") for k, row in view.items()} for v, view in views.items()}
    assert {v: view["a"] for v, view in views.items() if v} == A
    assert keys[1]["a"] == keys[2]["a"] == keys[3]["a"]
    assert len({keys[1]["a"], keys[1]["b"], keys[3]["b"]}) == 3
    assert list(views[2]) == ["a"]
    back = views[3]["b"]
    assert (back["tags"], back["list"], back["distinct"], back["product"]) == (["z"], [], 0, 1)
    assert [back[n] for n in ("min_by", "first", "mode", "any", "median", "sum")] == [None] * 6
