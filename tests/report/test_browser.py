"""The HTML report in a real browser, on a phone and on a desktop; no network, no display.

The browser comes from `tests/browser.py`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

import substrait_agg
from substrait_agg.errors import UsageError
from substrait_agg.problems import Problem
from substrait_agg.report.html.report import reports_html
from substrait_agg.report.report import Report
from substrait_agg.report.select import Selection
from tests.browser import SIZES, Browser, open_browser

PLANS = Path(__file__).parents[2] / "plans"
ROLLUP = PLANS / "samples/substrait-python/rollup.bin"
HOSTILE = "</script><script>window.hacked=1</script></style><img src=x onerror='window.hacked=1'>\"'\u202e\x00"
TOP = "relations[0].root.input"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("pages")) as opened:
        yield opened


def report_of(name: str) -> Report:
    return substrait_agg.validate(substrait_agg.Plan.from_file(PLANS / name))


def refused() -> Report:
    """A plan with one error, and warnings."""
    text = (PLANS / "samples/datafusion/join_agg.json").read_text()
    written = text.replace("JOIN_TYPE_INNER", "JOIN_TYPE_UNSPECIFIED")
    return substrait_agg.validate(substrait_agg.Plan("join_agg", written))


def hostile() -> Report:
    read = {"namedTable": {"names": [HOSTILE]}, "filter": {"literal": {"string": HOSTILE}}}
    root = {"names": [HOSTILE, "x" * 3_000], "input": {"read": read}}
    plan = {"version": {"producer": HOSTILE}, "relations": [{"root": root}]}
    found = tuple(
        Problem("PHASE_UNSPECIFIED", "error", path, HOSTILE, HOSTILE)
        for path in (HOSTILE, f"{TOP}.read.filter", f"{TOP}.read.{HOSTILE}")
    )
    return Report(HOSTILE, found, json.dumps(plan).encode())


def deep_plan() -> Report:
    inner: dict[str, Any] = {"read": {"namedTable": {"names": ["t"]}}}
    for _ in range(300):
        inner = {"filter": {"input": inner}}
    path = f"{TOP}{'.filter.input' * 300}.read"
    problem = Problem("PHASE_UNSPECIFIED", "error", path, "the message", "the help")
    plan = {"relations": [{"root": {"input": inner, "names": ["a"]}}]}
    return Report("deep", (problem,), json.dumps(plan).encode())


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    several = [report_of(f"samples/datafusion/{name}.bin") for name in ("join_agg", "rollup")]
    several.append(substrait_agg.validate(substrait_agg.Plan("broken", b"\xff\xff")))
    return {
        "query 1": reports_html([report_of("tpch/q01.bin")]),
        "refused": reports_html([refused()]),
        "several": reports_html(several),
        "hostile": reports_html([hostile()]),
        "deep": reports_html([deep_plan()]),
        "explained": substrait_agg.explain(substrait_agg.Plan.from_file(ROLLUP), "html"),
    }


PAGES = ("query 1", "refused", "several", "hostile", "deep", "explained")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_every_screen_and_nothing_is_complained_about(
    browser: Browser, pages: dict[str, str], name: str
) -> None:
    browser.show(pages[name])
    for everything in (False, True):
        if everything:
            browser.run("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        for size in SIZES:
            browser.resize(size)
            width, room = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
            assert width <= room == SIZES[size][0], size
    assert browser.complaints() == []
    assert browser.run("return window.hacked") is None


@pytest.mark.parametrize("size", ["phone", "desktop"])
@pytest.mark.parametrize("name", ["query 1", "several", "deep"])
def test_a_problem_in_the_list_leads_to_its_node(
    browser: Browser, pages: dict[str, str], name: str, size: str
) -> None:
    browser.show(pages[name], size)
    browser.run("document.querySelectorAll('.tree details').forEach(d => { d.open = false; })")
    line = browser.every(".line a")[-1]
    box = line.get_attribute("href").rpartition("#")[2]  # type: ignore[union-attr]
    browser.run("arguments[0].scrollIntoView()", line)
    line.click()
    browser.until(
        """const at = document.getElementById(arguments[0]).getBoundingClientRect();
        return at.height > 0 && at.top >= -1 && at.top < innerHeight
          && document.activeElement.id === arguments[0];""",
        box,
    )
    back = browser.one(f"#{box} .back")
    browser.run("arguments[0].scrollIntoView({block: 'center'})", back)
    back.click()
    browser.until("return document.activeElement.id === arguments[0]", f"l{box[1:]}")


def test_things_to_tap_on_a_phone_are_large_enough(browser: Browser, pages: dict[str, str]) -> None:
    browser.show(pages["query 1"], "phone")
    heights = browser.run(
        """return Array.from(document.querySelectorAll('button, select, .line a, summary'))
        .filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().height)"""
    )
    assert len(heights) > 50
    assert min(heights) >= 24
    assert sum(height >= 40 for height in heights) > 0.9 * len(heights)


def test_names_of_plans_can_be_read_on_a_phone(browser: Browser) -> None:
    """In the table of plans, the counts of problems leave room for the names."""
    some = Selection.of((), ("PHASE_*",)).of_report(report_of("tpch/q01.bin"))
    failures = [UsageError("FILE_NOT_FOUND", "the file does not exist", help="h", path="no.bin")]
    browser.show(reports_html([some, report_of("tpch/q06.bin")], failures), "small phone")
    widths = browser.run(
        "return Array.from(document.querySelectorAll('td:first-child')).map(e => e.clientWidth)"
    )
    verdicts = browser.run(
        "return Array.from(document.querySelectorAll('td:nth-child(2) .badge')).map(e => e.clientHeight)"
    )
    assert len(widths) == len(verdicts) == 2
    assert min(widths) >= 90
    assert max(verdicts) < 35, "one line each"
    assert browser.run("return document.documentElement.scrollWidth") == SIZES["small phone"][0]


def test_filters_by_level_and_code(browser: Browser, pages: dict[str, str]) -> None:
    browser.show(pages["refused"])

    def shown(kind: str) -> int:
        found = browser.run(
            "return Array.from(document.querySelectorAll(arguments[0])).filter(e => !e.hidden).length",
            kind,
        )
        return int(found)

    every = shown(".line")
    warnings = browser.one("button[data-show=warning]")
    warnings.click()
    assert warnings.get_attribute("aria-pressed") == "false"
    assert shown(".line") == shown(".problem") == shown(".line.error") == 1
    assert browser.one("#shown").text == f"1 of {every} shown"
    warnings.click()
    Select(browser.one("#code")).select_by_visible_text("PHASE_UNSPECIFIED")
    assert 0 < shown(".line") < every
    Select(browser.one("#code")).select_by_index(0)
    assert shown(".line") == every


def test_nodes_open_and_close_by_keyboard_and_tell_their_path(
    browser: Browser, pages: dict[str, str]
) -> None:
    browser.show(pages["query 1"])
    summary = next(s for s in browser.every(".tree summary") if "measures[3]" in s.text)
    node = summary.find_element(By.XPATH, "..")
    browser.run("arguments[0].focus()", summary)
    before = node.get_attribute("open")
    summary.send_keys(Keys.ENTER)
    assert node.get_attribute("open") != before
    summary.send_keys(Keys.SPACE)
    assert node.get_attribute("open") == before
    path = "relations[0].root.input.sort.input.project.input.aggregate.measures[3].measure"
    assert browser.one("#where").text == path
    outline = browser.run("return getComputedStyle(arguments[0]).outlineStyle", summary)
    assert outline == "solid", "focus can be seen"


def test_the_path_of_a_deep_node_is_whole_across_blocks(
    browser: Browser, pages: dict[str, str]
) -> None:
    browser.show(pages["deep"])
    summary = browser.every(".tree summary")[-1]
    for node in reversed(browser.every(".tree summary")):
        if "read" in node.text:
            summary = node
            break
    browser.run("arguments[0].scrollIntoView({block: 'center'}); arguments[0].focus()", summary)
    # What is on the screen breaks lines at will.
    shown = browser.run("return document.getElementById('where').textContent")
    assert shown.startswith(f"{TOP}{'.filter.input' * 300}.read")


def test_a_whole_tree_opens_and_closes(browser: Browser, pages: dict[str, str]) -> None:
    browser.show(pages["query 1"])
    nodes = "return Array.from(document.querySelectorAll('.tree li > details')).filter(d => d.open === arguments[0]).length"
    browser.one("button[data-open=all]").click()
    assert browser.run(nodes, False) == 0
    browser.one("button[data-open=none]").click()
    assert browser.run(nodes, True) == 0
    browser.one("button[data-open=problems]").click()
    assert browser.run("return document.querySelectorAll('.tree .problem').length") == len(
        [box for box in browser.every(".tree .problem") if box.is_displayed()]
    )


def test_without_scripts_everything_can_still_be_read(
    browser: Browser, pages: dict[str, str]
) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.show(pages["refused"], "phone")
        assert not browser.one(".filters").is_displayed()
        assert browser.one(".line").is_displayed()
        assert all(box.is_displayed() for box in browser.every(".problem"))
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


CONTRAST = """
const channels = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
const light = (rgb) => {
  const [r, g, b] = rgb.slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = (e) => {
  for (let at = e; at; at = at.parentElement) {
    const rgb = channels(getComputedStyle(at).backgroundColor);
    if (rgb.length === 3 || rgb[3] > 0) return rgb;
  }
  return [255, 255, 255];
};
const worst = [21, ""];
for (const e of document.querySelectorAll("body *")) {
  const own = Array.from(e.childNodes).some(n => n.nodeType === 3 && n.data.trim());
  if (!own || !e.checkVisibility()) continue;
  const [a, b] = [light(channels(getComputedStyle(e).color)), light(behind(e))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < worst[0]) { worst[0] = ratio; worst[1] = e.outerHTML.slice(0, 120); }
}
return worst;
"""


@pytest.mark.parametrize("name", ["several", "explained"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(
    browser: Browser, pages: dict[str, str], scheme: str, name: str
) -> None:
    browser.show(pages[name], "phone", scheme)
    dark = (
        browser.run("return getComputedStyle(document.body).backgroundColor")
        != "rgb(246, 247, 249)"
    )
    assert dark == (scheme == "dark")
    ratio, where = browser.run(CONTRAST)
    assert ratio >= 4.5, where


def test_landmarks_headings_and_names_are_there(browser: Browser, pages: dict[str, str]) -> None:
    browser.show(pages["several"])
    assert (
        len(browser.every("main")) == len(browser.every("header")) == len(browser.every("h1")) == 1
    )
    levels = [int(h.tag_name[1]) for h in browser.every("h1, h2, h3, h4")]
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels)), "no level is skipped"
    for section in browser.every("section"):
        name = section.get_attribute("aria-labelledby")
        assert browser.one(f"#{name}").text
    for field in browser.every("button, select"):
        assert field.accessible_name or not field.is_displayed()
