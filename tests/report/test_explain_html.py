"""The explanation as a page: complete, without external content, small, and safe for any column
names.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from substrait_agg.explanation import ExplainedPlan
from substrait_agg.explanation.text import groups_text, with_name
from substrait_agg.report.html.explain import MAX_PAGE, plan_html
from tests.flow.explained import HOSTILE, chain, hostile, samples, squares, union, wide

VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """Elements, checked to be closed in order, and the text between them."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(content)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["style"], ["script"]):
            self.text += data

    def all(self, attribute: str) -> list[str]:
        return [a[attribute] or "" for _, a in self.elements if attribute in a]


def shape(page: Page) -> list[tuple[str, tuple[str, ...]]]:
    return [(tag, tuple(attributes)) for tag, attributes in page.elements]


def complete(page: Page, plan: ExplainedPlan) -> None:
    """Every measure, type, tree, expression and column of the plan is on the page."""
    for operator in plan.operators:
        said = [with_name(m.call, m.name) for m in operator.measures]
        said += [m.type for m in operator.measures]
        said += [m.filter for m in operator.measures if m.filter is not None]
        said += [tree.what for tree in operator.state.trees]
        said += [e for i in operator.inputs for s in i.steps for e in s.expressions]
        said += [c.name for i in operator.inputs for c in i.columns]
        said += [s.what for s in operator.steps]
        said += [groups_text(operator.groups)] if operator.state.group_bytes else []
        said += [operator.path]
        for text in said:
            assert text in page.text, text


def test_a_page_says_all_that_there_is_of_a_usual_plan() -> None:
    for name, plan in samples():
        content = plan_html(plan, name)
        assert len(content.encode()) < 120_000, name
        page = Page(content)
        complete(page, plan)
        for column in plan.views[0].columns:
            assert column.name in page.text, name


def test_links_lead_to_parts_of_the_page_and_nowhere_else() -> None:
    for plan in (union(3), chain(4), hostile("usual")):
        page = Page(plan_html(plan))
        places = page.all("id")
        assert len(places) == len(set(places))
        for target in page.all("href"):
            assert target == "data:," or target.removeprefix("#") in places
        assert not page.all("src")
        assert not page.all("style")
        assert not [a for _, attributes in page.elements for a in attributes if a.startswith("on")]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_names_are_text_whatever_they_are(name: str) -> None:
    """Hostile names add no element to the page."""
    content = plan_html(hostile(name), f"{name}.bin")
    content.encode()
    page, usual = Page(content), Page(plan_html(hostile("usual"), "usual.bin"))
    assert shape(page) == shape(usual)


@pytest.mark.parametrize(
    ("made", "size"),
    [(chain, 500), (squares, 400), (union, 200), (wide, 800)],
    ids=["chain", "squares", "union", "wide"],
)
def test_a_page_stays_small_and_says_what_it_leaves_out(
    made: Callable[[int], ExplainedPlan], size: int
) -> None:
    plan = made(size)
    content = plan_html(plan, "x" * 5000)
    assert len(content.encode()) < MAX_PAGE
    page = Page(content)
    shown = {place for place in page.all("id") if re.fullmatch(r"op\d+", place)}
    missing = len(plan.operators) - len(shown)
    assert (f"… and {missing} more operators" in page.text) == bool(missing)
    most = max((len(o.measures) for o in plan.operators), default=0)
    assert most < 500 or re.search(r"… and \d+ more", page.text)


def test_what_escapes_to_the_most_letters_is_bounded_too() -> None:
    """The page is bounded also if every letter of the names is escaped to six or ten."""
    for letter in ("'", "<", "\U000e0041"):
        plan = hostile(letter * 99)
        assert len(plan_html(plan).encode()) < MAX_PAGE
        assert letter not in ("<",) or "<<" not in plan_html(plan)


def test_escaped_names_are_shown_as_they_are() -> None:
    content = plan_html(hostile("<b>bold</b>"))
    assert "<b>bold</b>" not in content
    assert html.escape("min(<b>bold</b>)") in content
