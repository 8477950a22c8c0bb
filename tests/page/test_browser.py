"""The page of a run in a real browser: it follows the run, in both colour schemes and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.page.server import WebPage
from tests.browser import SIZES, Browser, open_browser
from tests.page.runs import largest, shown_run, totals
from tests.page.test_server import HOSTILE

ROWS = "return Array.from(document.querySelectorAll(arguments[0] + ' tbody tr')).map(r => r.innerText).join('|')"
FOLLOWS = "return document.getElementById('state').textContent.startsWith('This page follows')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("pages")) as opened:
        yield opened


def test_the_page_follows_the_run_until_it_ends(browser: Browser, tmp_path: Path) -> None:
    batches = [[("north", 10), ("south", 3)], [("north", 2), (HOSTILE, 1)]]
    with shown_run(tmp_path, batches) as shown:
        browser.visit(shown.page.address)
        # The page was loaded before the first rows; its tables grow without another load.
        browser.until(FOLLOWS)
        browser.run("window.loaded = true")
        shown.run.batch()
        browser.until("return document.querySelectorAll('#rows0 tbody tr').length === 2")
        assert not browser.every("#rows0 polyline")
        shown.run.batch()
        browser.until("return document.querySelectorAll('#rows0 tbody tr').length === 3")
        texts = browser.run(ROWS, "#rows0")
        assert "north" in texts
        assert "12" in texts
        assert "<img src=x onerror='window.hacked=1'>\"\\u202e" in texts
        assert len(browser.every("#rows0 polyline")) == 4
        assert browser.run(ROWS, "#versions").split("\t")[0] == "2"
        width = browser.run(
            "return document.querySelector('#rows0 svg').getBoundingClientRect().width"
        )
        assert width == 60
        assert browser.run("return [window.hacked, window.loaded]") == [None, True]
        assert browser.complaints() == []
    browser.until("return document.body.classList.contains('lost')")
    assert "north" in browser.run(ROWS, "#rows0")


def test_a_page_that_was_opened_before_the_first_version_gets_its_tables(
    browser: Browser, tmp_path: Path
) -> None:
    page = WebPage(0, Checkpoint(tmp_path / "c"), [""])
    try:
        browser.visit(page.address)
        browser.until(FOLLOWS)
        assert not browser.every("#rows0")
        with shown_run(tmp_path, [[("north", 10)]]) as shown:
            shown.run.batch()
            page.begin(lambda: shown.run.progress)
            browser.until("return document.querySelectorAll('#rows0 tbody tr').length === 1")
        assert browser.complaints() == []
    finally:
        page.close()


def test_several_views_have_tabs(browser: Browser, tmp_path: Path) -> None:
    plan = {"totals": totals(), "largest": largest()}
    with shown_run(tmp_path, [[("north", 10)], [("north", 2)]], plan) as shown:
        shown.run.batch()
        browser.visit(shown.page.address)

        def visible() -> list[str]:
            return [e.get_attribute("id") or "" for e in browser.every(".view") if e.is_displayed()]

        assert visible() == ["view0"]
        tabs = browser.every("[role=tab]")
        assert [tab.text for tab in tabs] == ["totals", "largest"]
        tabs[0].send_keys(Keys.ARROW_RIGHT)
        assert visible() == ["view1"]
        shown.run.batch()
        browser.until("return document.querySelector('#versions td').textContent === '2'")
        assert visible() == ["view1"], "an update keeps the tab"
        tabs[0].click()
        assert visible() == ["view0"]
        assert browser.complaints() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_can_be_read_on_every_screen(
    scheme: str, browser: Browser, tmp_path: Path
) -> None:
    rows = [(f"a region with the number {number} and a long name", number) for number in range(60)]
    with shown_run(tmp_path, [rows, rows]) as shown:
        shown.run.batch()
        shown.ask()
        shown.run.batch()
        browser.visit(shown.page.address, scheme=scheme)
        browser.until(FOLLOWS)
        for size in SIZES:
            browser.resize(size)
            width, room = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
            assert width <= room == SIZES[size][0], size
        back, text, line = browser.run(
            """const of = (s, p) => getComputedStyle(document.querySelector(s))[p].match(/[0-9]+/g)
              .slice(0, 3).reduce((a, b) => a + Number(b), 0);
            return [of('.card', 'backgroundColor'), of('#rows0 td', 'color'), of('polyline', 'stroke')]"""
        )
        assert (back > line > text) == (scheme == "light")
        assert (back < line < text) == (scheme == "dark")
        assert browser.complaints() == []


def test_without_scripts_the_page_is_a_table(browser: Browser, tmp_path: Path) -> None:
    plan = {"totals": totals(), "largest": largest()}
    with shown_run(tmp_path, [[("north", 10)]], plan) as shown:
        shown.run.batch()
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        try:
            browser.visit(shown.page.address)
            text = browser.one("body").text
            assert not browser.one("[role=tablist]").is_displayed()
        finally:
            browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
        assert "View totals" in text
        assert "View largest" in text
        assert "Load the page again" in text
