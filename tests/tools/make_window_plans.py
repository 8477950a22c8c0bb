"""Makes `plans/windows/`: ``python tests/tools/make_window_plans.py``.

The table is ``goals`` with the columns ``team``, ``t`` and ``n``. ``tumble_end`` comes from DataFusion, which calls a function that
was registered with it; the others name the functions by the URN of their extension.
"""

from __future__ import annotations

from pathlib import Path

import datafusion
import pyarrow as pa
from datafusion.substrait import Serde
from google.protobuf import json_format
from substrait.proto import Plan

from tests.windowed import COUNT, SUM, Windows, aggregate, column, interval

FOLDER = Path(__file__).parents[2] / "plans" / "windows"
SQL = """
    SELECT team, tumble_end(t, INTERVAL '1 minute') AS minute, count(*) AS goals, sum(n) AS sum
    FROM goals GROUP BY team, tumble_end(t, INTERVAL '1 minute')
"""


def of_datafusion() -> bytes:
    """Goals per team and minute."""
    context = datafusion.SessionContext()
    time, span = pa.timestamp("us"), pa.month_day_nano_interval()
    goals = pa.table({"team": pa.array(["a"]), "t": pa.array([0], time), "n": pa.array([1])})
    context.register_record_batches("goals", [goals.to_batches()])
    function = datafusion.udf(lambda t, _: t, [time, span], time, "immutable", name="tumble_end")
    context.register_udf(function)
    plan: bytes = Serde.serialize_bytes(SQL, context)
    return plan


def of_extension(name: str, *seconds: int) -> bytes:
    """Goals per team and window."""
    windows = Windows()
    key = windows.call(name, *map(interval, seconds))
    relation = aggregate(windows.read(), [column(0), key], [COUNT, SUM])
    text = windows.plan(relation, "team", "window", "start", "end", "goals", "sum")
    made: bytes = json_format.Parse(text, Plan()).SerializeToString(deterministic=True)
    return made


def write(name: str, content: bytes) -> None:
    """Both forms of a plan."""
    (FOLDER / f"{name}.bin").write_bytes(content)
    text = json_format.MessageToJson(Plan.FromString(content))
    (FOLDER / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    write("tumble_end", of_datafusion())
    write("hop", of_extension("hop", 60, 20))
    write("session", of_extension("session", 90))
