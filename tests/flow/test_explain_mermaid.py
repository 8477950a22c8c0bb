"""The explanation as a Mermaid flowchart uses a few forms of lines, for any column names."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from substrait_agg.explanation import ExplainedPlan
from substrait_agg.explanation.mermaid import plan_mermaid
from tests.flow.explained import HOSTILE, chain, hostile, minus, samples, squares, union, wide

ID = r"(?:view|op\d+(?:_(?:group|state|exchange|tree\d+|in\d+(?:_step\d+)?))?)"
LABEL = r'"(?:[^\W_]|[ .,()=+/_?!-]|#\d+;|<br/>)*"'
KINDS = "source|spark|operator|state|view"
SHAPE = rf"(?:\[{LABEL}\]|\[\({LABEL}\)\]|\{{\{{{LABEL}\}}\}})"
FORMS = {
    "head": r'%%\{init: \{"flowchart": \{"wrappingWidth": \d+\}\}\}%%',
    "chart": "flowchart TD",
    "style": rf"  classDef (?:{KINDS}) fill:#[0-9a-f]{{6}},stroke:#[0-9a-f]{{6}},color:#[0-9a-f]{{6}}",
    "open": rf"  subgraph (?P<made>op\d+)\[{LABEL}\]",
    "close": "  end",
    "node": rf"  (?P<made>{ID}){SHAPE}:::(?:{KINDS})",
    "edge": rf"  (?P<from>{ID}) (?:-->(?:\|{LABEL}\|)?|-\.-) (?P<to>{ID})",
}


def plans() -> Iterator[tuple[str, ExplainedPlan]]:
    yield from samples()
    yield from ((f"named {name[:20]!a}", hostile(name)) for name in HOSTILE)
    yield "union", union(4)
    yield "minus", minus(4)
    yield "chain", chain(20)
    yield "squares", squares(40)
    yield "wide", wide(60)


def read(text: str) -> dict[str, list[re.Match[str]]]:
    """The lines by form; a line without a form fails."""
    found: dict[str, list[re.Match[str]]] = {form: [] for form in FORMS}
    for line in text.removesuffix("\n").split("\n"):
        matches = [(form, m) for form, p in FORMS.items() if (m := re.fullmatch(p, line))]
        assert len(matches) == 1, line
        found[matches[0][0]].append(matches[0][1])
    return found


def test_every_line_has_a_form_and_every_edge_joins_two_nodes() -> None:
    for name, plan in plans():
        lines = read(plan_mermaid(plan))
        nodes = [m["made"] for m in lines["node"]]
        groups = [m["made"] for m in lines["open"]]
        assert len(set(nodes + groups)) == len(nodes) + len(groups), name
        edges = [(m["from"], m["to"]) for m in lines["edge"]]
        assert {end for edge in edges for end in edge} == set(nodes), name
        assert len(lines["open"]) == len(lines["close"]) == len(plan.operators), name


def test_the_graph_leads_from_every_source_to_the_view() -> None:
    """Each source, step and exchange leads to the view along the arrows; nodes that describe a
    group do not.
    """
    for name, plan in plans():
        lines = read(plan_mermaid(plan))
        arrows = {}
        for edge in lines["edge"]:
            if "-->" in edge[0]:
                assert edge["from"] not in arrows, "a node hands its rows to one other"
                arrows[edge["from"]] = edge["to"]
        state = re.compile(r"op\d+_(state|tree\d+)")
        for node in (m["made"] for m in lines["node"]):
            if state.fullmatch(node) or node == "view":
                assert node not in arrows
                continue
            at, passed = node, 0
            while at != "view":
                at, passed = arrows[at], passed + 1
                assert passed <= len(arrows), name


def test_labels_say_what_the_text_says() -> None:
    text = plan_mermaid(dict(samples())["samples/datafusion/sum_distinct"])
    plain = re.sub(r"#(\d+);", lambda m: chr(int(m[1])), text.replace("<br/>", " "))
    assert "0 sum(DISTINCT CAST(qty AS i64)) -> i64?, shared tree" in plain
    assert "tree 0 ordered by CAST(qty AS i64), of measure 0" in plain
    assert "output region string?, sum(DISTINCT CAST(qty AS i64)) i64?" in plain
    assert "assumed tables have inserts only" in plain
    assert "table sales region string?, qty i32?, price fp64?" in plain
    assert "exchange rows to the partition of their key" in plain
    assert "101 bytes + the sizes of region, digits of a5" in plain


@pytest.mark.parametrize("name", [n for n in HOSTILE if n and n.isprintable() and len(n) < 99])
def test_escaped_names_read_as_they_are(name: str) -> None:
    text = plan_mermaid(hostile(name))
    plain = re.sub(r"#(\d+);", lambda m: chr(int(m[1])), text)
    assert f"table t<br/>{' '.join(name.split())}" in plain


def test_no_label_of_a_usual_plan_is_cut() -> None:
    for name, plan in samples():
        assert '..."' not in plan_mermaid(plan), name


def test_labels_are_cut_where_the_whole_would_be_too_long_for_mermaid() -> None:
    assert len(plan_mermaid(wide(100))) < 50_000
    assert len(plan_mermaid(union(30))) < 50_000
