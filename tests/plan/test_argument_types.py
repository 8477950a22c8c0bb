"""An argument of another type is an error that names the argument, before anything is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import substrait_agg as sa
from substrait_agg.arguments import check_types

PLAN = '{"relations": []}'
SALES = {"sales": "csv:sales/"}


@check_types
def example(text: str | Path, numbers: int | None = None) -> str:
    return f"{text} {numbers}"


CALLS: dict[str, tuple[str, Callable[[], Any]]] = {
    "sql": ("text", lambda: sa.sql(b"SELECT 1")),  # type: ignore[arg-type]
    "sources": ("sources", lambda: sa.sql("SELECT a FROM t", ["t"])),  # type: ignore[arg-type]
    "source": ("sources", lambda: sa.sql("SELECT a FROM t", {"t": Path("t.csv")})),
    "views": ("refresh", lambda: sa.sql_views("", refresh=["full"])),  # type: ignore[arg-type]
    "static": ("static", lambda: sa.explain(PLAN, static="sales")),
    "statics": ("static", lambda: sa.explain(PLAN, static=[1])),  # type: ignore[list-item]
    "frame": ("frame", lambda: sa.from_dataframe("sales")),
    "emit": ("emit", lambda: sa.run(PLAN, SALES, checkpoint="c", emit=5)),  # type: ignore[arg-type]
    "conf": ("conf", lambda: sa.run(PLAN, SALES, checkpoint="c", conf={"a": 5})),  # type: ignore[dict-item]
    "outputs": ("outputs", lambda: sa.run(PLAN, SALES, checkpoint="c", outputs="none")),
    "output": ("outputs", lambda: sa.run(PLAN, SALES, checkpoint="c", outputs=[5])),
    "checkpoint": ("checkpoint", lambda: sa.run(PLAN, SALES, checkpoint=None)),  # type: ignore[arg-type]
    "view": ("checkpoint", lambda: sa.open_view(5)),  # type: ignore[arg-type]
    "state": ("checkpoint", lambda: sa.open_state(None)),  # type: ignore[arg-type]
    "measure": ("measure", lambda: sa.register_measure("sum")),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", CALLS)
def test_the_error_names_the_argument(call: str) -> None:
    name, wrong = CALLS[call]
    with pytest.raises(sa.UsageError) as refused:
        wrong()
    assert refused.value.path == name
    assert refused.value.help


def test_annotations_decide_what_fits() -> None:
    assert example("a", 1) == "a 1"
    assert example(Path("a")) == "a None"
    with pytest.raises(sa.UsageError, match="numbers is of type float") as refused:
        example("a", 1.0)  # type: ignore[arg-type]
    assert refused.value.help == "numbers must be of type int | None"
    with pytest.raises(TypeError, match=r"example\(\) got an unexpected keyword argument 'other'"):
        example("a", other=1)  # type: ignore[call-arg]


def test_an_iterator_is_not_consumed() -> None:
    names = iter(["sales"])
    with pytest.raises(sa.PlanRefused):
        sa.explain(PLAN, static=names)
    assert list(names) == []
