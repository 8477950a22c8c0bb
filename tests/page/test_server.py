"""The page of a run over HTTP: what it shows, what it refuses, and what it costs."""

from __future__ import annotations

import re
import socket
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest

import substrait_agg as sa
from substrait_agg.changes.formats.encode import cell_texts
from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.commit.view.view import View
from substrait_agg.errors import StateRefused, UsageError
from substrait_agg.metrics import Progress, SinkProgress
from substrait_agg.page.content import RunContent
from substrait_agg.page.server import WebPage
from tests.page.runs import ShownRun, largest, shown_run, totals

HOSTILE = "</span></script><script>window.hacked=1</script><img src=x onerror='window.hacked=1'>\"\u202e\t"


class Cells(HTMLParser):
    """The texts of the cells of each table, by its id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[str]] = {}
        self.elements: list[str] = []
        self._table = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag == "table":
            self._table = dict(attrs)["id"] or ""
        if tag in ("td", "th"):
            self.tables.setdefault(self._table, []).append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._table = ""

    def handle_data(self, data: str) -> None:
        if self._table:
            self.tables[self._table][-1] += data


def test_the_data_follow_the_committed_versions(tmp_path: Path) -> None:
    with shown_run(tmp_path, [[("north", 10), ("south", 3)], [("north", 2)]]) as shown:
        data = shown.ask().data
        assert (data["version"], data["views"][0]["rows"]) == (0, [])
        shown.run.batch()
        assert sorted(shown.rows()) == [["north", "10", "1"], ["south", "3", "1"]]
        shown.run.batch()
        data = shown.ask().data
        (view,) = data["views"]
        assert sorted(view["rows"]) == [["north", "12", "2"], ["south", "3", "1"]]
        assert [column["name"] for column in view["columns"]] == ["region", "total", "n"]
        assert [column["number"] for column in view["columns"]] == [False, True, True]
        assert (data["version"], view["more"], data["problem"]) == (2, False, "")
        versions = [(row[0], row[2], row[3]) for row in data["versions"]["rows"]]
        assert versions == [("2", "1", "2"), ("1", "2", "2"), ("0", "0", "0")]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", data["versions"]["rows"][0][1])


def test_the_cells_are_those_of_the_text_outputs(tmp_path: Path) -> None:
    with shown_run(tmp_path, [[(None, 10), ("a\tb", -3), (HOSTILE, 1)]]) as shown:
        shown.run.batch()
        view = sa.open_view(tmp_path / "c").to_arrow()
        texts = zip(*(column.to_pylist() for column in cell_texts(view)), strict=True)
        assert shown.rows() == [list(row) for row in texts]
        assert ["NULL", "10", "1"] in shown.rows()


def test_several_views_are_shown_at_one_version_in_their_order(tmp_path: Path) -> None:
    rows = [(f"r{number:03}", number) for number in range(80)]
    with shown_run(tmp_path, [rows], {"totals": totals(), "largest": largest()}) as shown:
        shown.run.batch()
        first, second = shown.ask().data["views"]
        assert (first["name"], second["name"]) == ("totals", "largest")
        assert second["rows"] == [[f"r{n:03}", str(n)] for n in range(79, 29, -1)]
        assert (len(first["rows"]), first["more"], second["more"]) == (50, True, True)


def test_the_page_is_complete_without_a_script(tmp_path: Path) -> None:
    plan = {"totals": totals(), "largest": largest()}
    with shown_run(tmp_path, [[("north", 10)], [("north", 2)]], plan) as shown:
        shown.run.batch()
        shown.ask()
        shown.run.batch()
        answer = shown.ask("/")
        page = Cells(answer.text)
        assert page.tables["rows0"] == ["region", "total", "n", "north", "12", "2"]
        assert page.tables["rows1"] == ["region", "most", "north", "10"]
        assert page.tables["versions"][5::5] == ["2", "1", "0"]
        assert page.elements.count("polyline") == 3
        assert not re.search(r"(src|href)=\"(?!#|data:,)", answer.text)


def test_an_unchanged_version_costs_no_body_and_no_reading(tmp_path: Path) -> None:
    head = View.head
    read: list[int | None] = []

    def counted(view: View, rows: int, version: int | None = None) -> Any:
        read.append(version)
        return head(view, rows, version)

    with (
        patch.object(View, "head", counted),
        shown_run(tmp_path, [[("north", 10)], [("north", 2)], [("north", 1)]]) as shown,
    ):
        shown.run.batch()
        assert read == [], "nobody has asked"
        first = shown.ask()
        again = shown.ask(If_None_Match=first.headers["ETag"])
        assert (first.status, again.status, again.body) == (200, 304, b"")
        assert again.headers["ETag"] == first.headers["ETag"]
        shown.ask("/")
        assert read == [1]
        shown.run.batch()
        shown.run.batch()
        assert shown.ask(If_None_Match=first.headers["ETag"]).status == 200
        assert read == [1, 3], "a version that nobody has seen is not read"


def test_a_line_has_the_numbers_of_a_row_in_the_versions_that_were_shown(tmp_path: Path) -> None:
    batches = [[("north", 1), ("south", 5)], [("north", 1)], [("north", -2)]]
    with shown_run(tmp_path, batches) as shown:
        lines: list[dict[str, list[str]]] = []
        while shown.run.batch():
            (view,) = shown.ask().data["views"]
            lines.append({r[0]: line for r, line in zip(view["rows"], view["lines"], strict=True)})
        assert lines[0]["north"] == ["", "", ""], "one value has no line"
        assert lines[2]["north"][0] == "", "a key does not change"
        assert lines[2]["north"][1] == "57,8.0 58,1.0 59,15.0", (
            "1, 2, 0: a greater one is higher up"
        )
        assert lines[2]["south"][1] == "57,8.0 58,8.0 59,8.0"


def test_hostile_values_are_text(tmp_path: Path) -> None:
    with shown_run(tmp_path, [[(HOSTILE, 1)]]) as shown:
        before = Cells(shown.ask("/").text).elements
        shown.run.batch()
        answer = shown.ask("/")
        assert "<script>window.hacked" not in answer.text
        assert "<img" not in answer.text
        assert "\u202e" not in answer.text
        after = Cells(answer.text).elements
        assert (after.count("script"), after.count("img")) == (before.count("script"), 0)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "127.0.0.1:x", "[::1]", ""],
)  # fmt: skip
def test_another_host_is_refused(host: str, tmp_path: Path) -> None:
    """A website whose name leads to 127.0.0.1 cannot read the page."""
    with shown_run(tmp_path, [[("north", 1)]]) as shown:
        shown.run.batch()
        for path in ("/", "/data.json"):
            answer = shown.ask(path, host=host or " ")
            assert (answer.status, b"north" in answer.body) == (421, False)
        for fine in ("localhost", "LOCALHOST:9999", "127.0.0.1"):
            assert shown.ask(host=fine).status == 200


def raw(shown: ShownRun, request: bytes) -> bytes:
    place = urlsplit(shown.page.address)
    with socket.create_connection((str(place.hostname), place.port), timeout=30) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while piece := connection.recv(1 << 16):
            found += piece
    return found


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET http://localhost/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"\xff\xfe nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET /%2e%2e/data.json HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_a_strange_request_is_refused_and_the_next_one_served(
    request_: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with shown_run(tmp_path, [[("north", 1)]]) as shown:
        shown.run.batch()
        answer = raw(shown, request_)
        assert not re.match(rb"HTTP/1\.\d 200", answer)
        assert b"north" not in answer
        assert shown.ask().status == 200
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "ODD"])
def test_only_get_is_answered(method: str, tmp_path: Path) -> None:
    with shown_run(tmp_path, [[("north", 1)]]) as shown:
        answer = shown.ask("/", method)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET")


def test_every_answer_forbids_foreign_content(tmp_path: Path) -> None:
    with shown_run(tmp_path, [[("north", 1)]]) as shown:
        for path, status in (("/", 200), ("/data.json", 200), ("/favicon.ico", 404)):
            answer = shown.ask(path)
            policy = dict(
                part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";")
            )  # fmt: skip
            assert answer.status == status
            assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
            assert policy["connect-src"] == "'self'"
            for kind in ("script-src", "style-src"):
                assert re.fullmatch(r"'sha256-[\w+/]+='", policy[kind])
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
            assert "Access-Control-Allow-Origin" not in answer.headers
            assert "Python" not in answer.headers["Server"]


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    store = Checkpoint(tmp_path / "c")
    page = WebPage(0, store, [""])
    port = urlsplit(page.address).port
    assert port
    with pytest.raises(UsageError, match=f"port {port} of 127.0.0.1 cannot be opened") as refused:
        WebPage(port, store, [""])
    assert (refused.value.code, bool(refused.value.help)) == ("PAGE_NOT_SERVED", True)
    page.close()
    WebPage(port, store, [""]).close()


def test_before_the_first_version_the_page_says_so(tmp_path: Path) -> None:
    page = WebPage(0, Checkpoint(tmp_path / "c"), [""])
    try:
        answer = ShownRun(None, page).ask("/")  # type: ignore[arg-type]
        assert (answer.status, "none yet" in answer.text) == (200, True)
    finally:
        page.close()


def test_a_run_that_goes_on_shows_the_version_that_it_continues(tmp_path: Path) -> None:
    batches = [[("north", 1)], [("north", 2)]]
    with shown_run(tmp_path, batches) as shown:
        shown.run.batch()
    with shown_run(tmp_path, batches) as shown:
        data = shown.ask().data
        assert (data["version"], data["views"][0]["rows"]) == (1, [["north", "1", "1"]])
        assert data["versions"]["rows"] == [], "this run has committed nothing"
        shown.run.batch()
        data = shown.ask().data
        assert data["views"][0]["rows"] == [["north", "3", "2"]]
        assert [row[0] for row in data["versions"]["rows"]] == ["2"]


def test_the_lag_of_outputs_is_part_of_the_tag(tmp_path: Path) -> None:
    with shown_run(tmp_path, [[("north", 1)]]) as shown:
        content = RunContent(Checkpoint(tmp_path / "c"), [""])
        behind = Progress(version=0, sinks=(SinkProgress("stream-json", -1, 1),))
        even = Progress(version=0, sinks=(SinkProgress("stream-json", 0, 0, 1, seconds=0.1),))
        later = Progress(version=0, sinks=(SinkProgress("stream-json", 0, 0, 1, seconds=0.2),))
        states = []
        for progress in (behind, even, later):
            content.begin(lambda progress=progress: progress)  # type: ignore[misc]
            states.append(content.current())
        assert shown.ask().data["outputs"]["rows"] == []
    assert states[0].tag != states[1].tag
    assert states[1] is states[2]
    assert states[1].data["outputs"]["rows"] == [("stream-json", "0", "0", "0")]


def test_a_version_that_cannot_be_read_is_said_and_read_later(tmp_path: Path) -> None:
    with shown_run(tmp_path, [[("north", 1)], [("north", 2)]]) as shown:
        shown.run.batch()
        before = shown.ask().data
        shown.run.batch()
        failure = StateRefused("VERSION_EXPIRED", "the state of version 2 is <gone>")
        with patch.object(View, "head", side_effect=failure):
            data = shown.ask().data
            page = shown.ask("/").text
        assert data["problem"].startswith("version 2 could not be read: [VERSION_EXPIRED]")
        assert "is &lt;gone&gt;" in page
        assert data["views"] == before["views"]
        data = shown.ask().data
        assert (data["problem"], data["views"][0]["rows"]) == ("", [["north", "3", "2"]])


def test_a_view_that_takes_long_to_read_is_read_less_often(tmp_path: Path) -> None:
    now = [0.0]
    with shown_run(tmp_path, [[("north", 1)], [("north", 2)]]) as shown:
        content = RunContent(Checkpoint(tmp_path / "c"), [""], lambda: now[0])
        head = View.head

        def slow(view: View, rows: int, version: int | None = None) -> Any:
            now[0] += 2
            return head(view, rows, version)

        with patch.object(View, "head", slow):
            content.begin(lambda: shown.run.progress)
            assert content.current().data["version"] == 0
            shown.run.batch()
            content.committed(shown.run.progress)
            for at, version in ((3.0, 0), (19.0, 0), (20.0, 1)):
                now[0] = at
                assert content.current().data["version"] == version
