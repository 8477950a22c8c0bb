"""The HTML report shows every problem at its place, in a small page without external content or
scripts of the plan.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import substrait_agg
from substrait_agg.errors import UsageError
from substrait_agg.plan.messages.message import read_message
from substrait_agg.plan.messages.node import MessageNode, preorder
from substrait_agg.problem_kinds import KINDS
from substrait_agg.problems import Problem
from substrait_agg.report.html.report import MAX_PAGE, reports_html
from substrait_agg.report.report import Report
from tests.report.pages import Element, by_id, parsed
from tests.sampling import examples

PLANS = Path(__file__).parents[2] / "plans"
SAMPLES = sorted(PLANS.rglob("*.bin"))
HOSTILE = "</script><script>window.hacked=1</script></style><img src=x onerror=hacked=1>\"'&lt;\u202e\x00\x1b\ud800"
TOP = "relations[0].root.input"


REFUSED = "../tests/data/producers/datafusion_40_having.bin"
"""A plan without column types, from the folder of sample plans."""


def report_of(name: str) -> Report:
    return substrait_agg.validate(substrait_agg.Plan.from_file(PLANS / name))


def problem(
    path: str, level: Any = "warning", message: str = "m", code: str = "PHASE_UNSPECIFIED"
) -> Problem:
    return Problem(code, level, path, message, "do something")


def page_of(*reports: Report) -> Element:
    """The page, after the checks that apply to every page."""
    html = reports_html(reports)
    assert len(html.encode()) < MAX_PAGE
    page = parsed(html)
    names = by_id(page)
    for link in page.of("a"):
        assert link.attributes["href"].removeprefix("#") in names, link.attributes["href"]
    lines = page.of("li", "line")
    assert len(lines) == len(page.of("div", "problem")), "each line has its box"
    return page


def written(root: MessageNode) -> Iterator[str]:
    """Return the paths of all fields of a plan without nested messages."""
    for node in preorder(root):
        for name, held in node.values.items():
            if not (isinstance(held, list) and isinstance(held[0], MessageNode)):
                if not isinstance(held, MessageNode) or not held.values:
                    yield node.at(name)
            else:
                yield from (child.path for child in held if not child.values)


@pytest.mark.parametrize("plan", SAMPLES, ids=lambda p: "-".join(p.relative_to(PLANS).parts))
def test_every_field_and_every_problem_of_a_sample_is_at_its_place(plan: Path) -> None:
    report = report_of(str(plan))
    page = page_of(report)
    rows = {e.path(page) for tree in page.of("ul", "tree") for e in tree.of("li")}
    root = read_message(report.content)
    assert root is not None
    assert set(written(root)) <= rows
    boxes = page.of("div", "problem")
    assert len(boxes) == len(report.problems)
    for found, told in zip(page.of("li", "line"), report.problems, strict=True):
        box = by_id(page)[found.of("a")[0].attributes["href"][1:]]
        assert told.message in box.text()
        # A name in a list is no node of its own; a message and the one it wraps are one node.
        path = re.sub(r"(names|preference)\[\d+\]$", r"\1", told.path)
        node = next(e for e in surroundings(box) if e.tag == "li")
        assert f"{box.path(page)}.".startswith(f"{path}.")
        assert node.parent is not None
        assert len(node.parent.path(page)) < len(path), "no smaller node is around it"


def surroundings(element: Element) -> Iterator[Element]:
    """The elements around one, the innermost first."""
    at = element.parent
    while at is not None:
        yield at
        at = at.parent


def test_the_tree_reads_like_the_query() -> None:
    page = page_of(report_of("tpch/q01.bin"))
    titles = [e.text() for e in page.of("span", "title")]
    for expected in (
        "aggregate: 2 keys, 8 measures",
        "read lineitem",
        "filter: l_shipdate <= DATE '1998-08-03'",
        "grouping set (l_returnflag, l_linestatus)",
        "sum(l_extendedprice * (1 - l_discount))",
        "count(1)",
    ):
        assert expected in titles, expected


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        ("samples/substrait-python/count_distinct.bin", "count(DISTINCT product)"),
        ("samples/substrait-python/filter_clause.bin", "sum(qty) FILTER (WHERE price > 10.0)"),
        ("samples/substrait-python/rollup.bin", "aggregate: 2 keys, 1 measure, 3 grouping sets"),
        ("samples/substrait-python/rollup.bin", "grouping set () of all rows"),
        ("samples/substrait-python/sum_overflow_opt.bin", "overflow: ERROR"),
        ("samples/datafusion/join_agg.bin", "inner join on product = product"),
        ("samples/datafusion/join_agg.bin", "result: category, v, n"),
        ("tpch/isthmus/q01.bin", "sort: L_RETURNFLAG ascending, nulls last, L_LINESTATUS ascending, nulls last"),
    ],
)  # fmt: skip
def test_nodes_have_readable_titles(plan: str, expected: str) -> None:
    titles = [e.text() for e in page_of(report_of(plan)).of("span", "title")]
    assert expected in titles, titles


def test_what_leads_to_a_problem_is_open_and_marked_and_the_rest_is_closed() -> None:
    found = problem(f"{TOP}.sort.input.project.expressions[3]", "error")
    report = Report("q01", (found,), (PLANS / "tpch/q01.bin").read_bytes())
    page = page_of(report)
    nodes = [e for e in surroundings(page.of("div", "problem")[0]) if e.tag == "details"]
    assert len(nodes) == 5
    for node in nodes:
        assert "open" in node.attributes
        assert "✖ 1 error" in node.of("summary")[0].text()
    closed = [d for d in page.of("ul", "tree")[0].of("details") if "open" not in d.attributes]
    assert len(closed) > 20
    assert all(not d.of("span", "badge") for d in closed)


def test_a_problem_says_what_to_do_and_why() -> None:
    report = report_of("samples/substrait-python/rollup.bin")
    first = report.problems[0]
    box = by_id(page_of(report))["p0-0"].text()
    why = KINDS[first.code].why.replace("`", "")
    assert why
    for text in (first.code, f"▲ {first.level}", first.message, first.help, first.path, why):
        assert text in box, text


def test_verdict_and_counts_are_told() -> None:
    page = page_of(report_of(REFUSED), report_of("tpch/q01.bin"))
    assert page.of("h1")[0].text() == "1 of 2 plans refused"
    row = page.of("tr")[1].text()
    assert "refused" in row
    assert "✖ 1 error" in row
    assert page_of(report_of("tpch/q01.bin")).of("h1")[0].text() == "The plan is valid"


def test_every_code_of_the_table_is_explained_in_a_page_with_all_of_them() -> None:
    every = tuple(
        Problem(kind.code, kind.lenient, TOP, kind.message, kind.help) for kind in KINDS.values()
    )
    page = page_of(Report("all", every, (PLANS / "tpch/q06.bin").read_bytes()))
    assert len(page.of("li", "line")) > 60
    explained = [e.attributes["id"].removeprefix("why-") for e in page.of("article")]
    assert set(explained) <= set(KINDS)
    assert len(explained) > 60


def test_the_page_asks_for_nothing_and_runs_only_its_own_script() -> None:
    page = page_of(report_of("tpch/q01.bin"))
    policy = next(m for m in page.of("meta") if "http-equiv" in m.attributes).attributes["content"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (only,) = page.of(tag)
        digest = base64.b64encode(hashlib.sha256(only.text().encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    for element in page.every():
        assert not {"src", "style"} & set(element.attributes), element
        assert not [name for name in element.attributes if name.startswith("on")], element
        assert element.attributes.get("href", "#").startswith(("#", "data:,"))


def hostile_plan() -> bytes:
    read = {
        "namedTable": {"names": [HOSTILE]},
        "filter": {"literal": {"string": HOSTILE * 50}},
    }
    named = {"extensionFunction": {"functionAnchor": 1, "name": HOSTILE}}
    root = {"names": [HOSTILE] * 3, "input": {"read": read}}
    plan = {
        "version": {"producer": HOSTILE},
        "extensions": [named],
        "relations": [{"root": root}],
    }
    return json.dumps(plan).encode()


def test_hostile_texts_stay_texts() -> None:
    paths = ("", HOSTILE, f"{TOP}.read.{HOSTILE}", f"{TOP}.read.filter")
    found = tuple(problem(path, message=HOSTILE * 30) for path in paths)
    html = reports_html([Report(HOSTILE, found, hostile_plan())])
    assert "<script>window" not in html
    assert not set("\u202e\x00\x1b") & set(html)
    html.encode()
    page = parsed(html)
    assert len(page.of("script")) == 1
    assert not page.of("img")
    assert "<img src=x" in page.text()


def nested(levels: int) -> bytes:
    """A plan of filters over filters, as protobuf."""

    def field(number: int, content: bytes) -> bytes:
        length, size = len(content), b""
        while True:
            size += bytes([(length & 127) | (128 if length > 127 else 0)])
            length >>= 7
            if not length:
                return bytes([number << 3 | 2]) + size + content

    relation = field(1, field(7, field(1, b"t")))
    for _ in range(levels):
        relation = field(2, field(2, relation))
    return field(3, field(2, field(1, relation)))


def test_a_deep_plan_is_shown_to_its_end_in_blocks_that_a_browser_can_nest() -> None:
    deep = f"{TOP}{'.filter.input' * 950}.read"
    page = page_of(Report("deep", (problem(deep), problem(TOP)), nested(950)))
    boxes = page.of("div", "problem")
    assert {box.path(page) for box in boxes} == {f"{TOP}.filter", f"{deep}.named_table"}
    assert all(len(list(surroundings(box))) < 500 for box in boxes)
    assert len(page.of("div", "block")) > 10


def wide(rows: int) -> bytes:
    values = [{"fields": [{"i64": str(i)}, {"string": "x" * 10}]} for i in range(rows)]
    read = {"read": {"virtualTable": {"values": values}}}
    return json.dumps({"relations": [{"root": {"input": read, "names": ["a", "b"]}}]}).encode()


def test_a_wide_plan_is_cut_with_the_number_of_what_is_missing() -> None:
    last = f"{TOP}.read.virtual_table.values[9999].fields[1]"
    page = page_of(Report("wide", (problem(last),), wide(10_000)))
    assert page.of("div", "problem")[0].path(page).startswith(last)
    gaps = [int(n.replace(",", "")) for n in re.findall(r"… ([\d,]+) more, left out", page.text())]
    shown = [e for e in page.of("li") if re.fullmatch(r"values\[\d+\]", e.step())]
    assert max(gaps) + len(shown) == 10_000


def test_of_thousands_of_problems_the_worst_are_shown_and_the_rest_counted() -> None:
    path = f"{TOP}.read.virtual_table.values[{{}}].fields[1]"
    found = tuple(
        problem(path.format(i), "error" if i % 100 == 0 else "info") for i in range(3_000)
    )
    page = page_of(Report("many", found, wide(3_000)))
    lines = page.of("li", "line")
    assert sum("error" in e.attributes["class"] for e in lines) == 30
    assert f"… {3_000 - len(lines):,} more problems" in page.text()


def test_thousands_of_plans_share_one_page() -> None:
    content = (PLANS / "tpch/q06.bin").read_bytes()
    reports = [Report(f"plan {i}", (problem(TOP),), content) for i in range(2_000)]
    reports[1_500] = Report("the bad one", (problem(TOP, "error"),), content)
    page = page_of(*reports)
    text = page.text()
    assert "1 of 2,000 plans refused" in text
    assert any(h.text() == "the bad one" for h in page.of("h2"))
    assert re.search(r"… 1,\d\d\d more plans, left out", text)


@pytest.mark.parametrize(
    "name", ["n" * 100_000, HOSTILE * 1_000, ""], ids=["long", "hostile", "none"]
)
def test_names_do_not_burst_the_page(name: str) -> None:
    reports = [report_of("tpch/q06.bin")] * 3
    page_of(*(Report(name, r.problems, r.content) for r in reports))


def test_problems_of_what_cannot_be_read_are_shown_without_a_tree() -> None:
    report = substrait_agg.validate(substrait_agg.Plan("broken", b"\xff\xff\xff"))
    page = page_of(report)
    assert not page.of("ul", "tree")
    assert report.problems[0].message in page.of("div", "problem")[0].text()


def test_no_plan_at_all_makes_a_page() -> None:
    page_of()


@settings(max_examples=examples(40), deadline=None)
@given(
    st.sampled_from(SAMPLES),
    st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 255)), max_size=8),
)
def test_a_damaged_plan_makes_a_page(plan: Path, damage: list[tuple[int, int]]) -> None:
    content = bytearray(plan.read_bytes())
    for at, value in damage:
        content[at % len(content)] = value
    page_of(Report("damaged", (problem(f"{TOP}.aggregate.measures[0]"),), bytes(content)))


TEXTS = st.text(max_size=40)
PATHS = st.sampled_from(
    ["", TOP, f"{TOP}.sort", f"{TOP}.sort.sorts[1].direction", "relations[7]", "a.b"]
)
PROBLEMS = st.builds(
    Problem,
    st.sampled_from(sorted(KINDS)),
    st.sampled_from(["error", "warning", "info"]),
    PATHS | TEXTS | st.integers(0, 9).map(lambda i: f"{TOP}.sort.input.project.expressions[{i}].x[{i}].y"),
    TEXTS | TEXTS.map(lambda t: t * 500),
    TEXTS,
)  # fmt: skip


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.lists(PROBLEMS, max_size=30), max_size=4), st.data())
def test_any_problems_anywhere_make_a_page(found: list[list[Problem]], data: st.DataObject) -> None:
    contents = [(PLANS / "tpch/q01.bin").read_bytes(), hostile_plan(), b"", b"{"]
    page_of(
        *(
            Report(data.draw(TEXTS), tuple(problems), data.draw(st.sampled_from(contents)))
            for problems in found
        )
    )


def test_what_is_not_shown_is_counted() -> None:
    """A report whose errors are filtered out never says that the plan has no problems."""
    hidden = (problem("version", "error"), problem("version", "error"))
    page = page_of(Report("x", (), b"", hidden))
    assert "2 errors not shown" in page.text()
    assert "No problems." not in page.text()
    assert "no problems" not in page.text()
    both = page_of(Report("x", (), b"", hidden), Report("y", ()))
    assert both.text().count("2 errors not shown") >= 2, "in the table and in the section"


def test_files_that_could_not_be_read_are_named() -> None:
    failures = [
        UsageError("FILE_NOT_FOUND", "the file does not exist", help="h", path=f"<b>{at}\u202e.bin")
        for at in range(30)
    ]
    html = reports_html([report_of("tpch/q06.bin")], failures)
    page = parsed(html)
    assert "30 files could not be read" in page.text()
    assert "<b>0\\u202e.bin: the file does not exist" in page.text()
    assert "plans valid" not in page.of("h1")[0].text()
    assert len(html.encode()) < MAX_PAGE
    assert "could not be read" in parsed(reports_html([], failures[:1])).of("h1")[0].text()


def test_hundreds_of_unreadable_files_fit_the_page() -> None:
    failures = [
        UsageError("FILE_NOT_FOUND", "m" * 500, help="h", path=f"{at}" + "x" * 4000)
        for at in range(500)
    ]
    assert len(reports_html([], failures).encode()) < MAX_PAGE
