"""Serve the page of a run to browsers of this machine.

The server listens on 127.0.0.1 only. It answers GET requests that name this machine as their host, so
that no website can read the page through a name of its own that leads here.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from substrait_agg.commit.log.checkpoint import Checkpoint
from substrait_agg.errors import UsageError
from substrait_agg.metrics.progress import Progress
from substrait_agg.page.content import RunContent
from substrait_agg.page.rendering import page_html, page_policy

HOST = "127.0.0.1"
HOSTS = frozenset({HOST, "localhost"})
"""Names of this machine in the Host header of a request."""
IDLE_SECONDS = 5.0
"""Seconds after which a connection without a request is closed."""
POLL_SECONDS = 0.1
"""Seconds after which the server sees that it has to end."""


class WebPage:
    """The page of a run. It is served from now on, until `close`.

    Args:
        port: the port; 0 for a free one.
        store: the checkpoint.
        views: names of its views.

    Raises:
        UsageError: PAGE_NOT_SERVED.
    """

    def __init__(self, port: int, store: Checkpoint, views: Sequence[str]) -> None:
        self._content = RunContent(store, views)
        try:
            self._server = _Server((HOST, port), partial(_Request, self._content))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(
                "PAGE_NOT_SERVED",
                f"port {port} of {HOST} cannot be opened: {reason}",
                help="give another port, or 0 for a free one",
                path="page",
            ) from error
        self._thread = threading.Thread(
            target=partial(self._server.serve_forever, POLL_SECONDS), name="run-page", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """Return the URL of the page."""
        return f"http://{HOST}:{self._server.server_address[1]}/"

    def begin(self, progress: Callable[[], Progress]) -> None:
        """Show the run whose progress a function returns."""
        self._content.begin(progress)

    def committed(self, progress: Progress) -> None:
        """Show a committed version."""
        self._content.committed(progress)

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingTCPServer):
    """A server with a thread per request, which neither another program nor its clients can stop."""

    daemon_threads = True
    request_queue_size = 16
    # On Windows, a port with this option can be opened by two programs.
    allow_reuse_address = os.name != "nt"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that are gone."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Request(BaseHTTPRequestHandler):
    """One request; the connection is closed after the response."""

    timeout = IDLE_SECONDS
    error_message_format = "%(code)d %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def __init__(self, content: RunContent, *connection: Any) -> None:
        self._content = content
        super().__init__(*connection)

    def version_string(self) -> str:
        """Return the name of the server, without versions."""
        return "substrait-agg"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def end_headers(self) -> None:
        """Add the headers that every response has."""
        self.send_header("Allow", "GET")
        self.send_header("Content-Security-Policy", page_policy())
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def parse_request(self) -> bool:
        """Refuse requests by another method, or for another host."""
        if not super().parse_request():
            return False
        if self.command != "GET":
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
            return False
        hosts = self.headers.get_all("Host", [])
        name, _, port = hosts[0].partition(":") if len(hosts) == 1 else ("", "", "")
        # A tunnel to another machine has a port of its own.
        if name.lower() not in HOSTS or not (port.isascii() and (port.isdigit() or not port)):
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return False
        return True

    def do_GET(self) -> None:
        """Answer a request for the page or for its data."""
        path = self.path.partition("?")[0]
        if path not in ("/", "/data.json"):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        state = self._content.current()
        if path == "/":
            self._answer(page_html(self._content.title, state).encode(), "text/html")
        elif self.headers.get("If-None-Match") == state.tag:
            self.send_response(HTTPStatus.NOT_MODIFIED)
            self.send_header("ETag", state.tag)
            self.end_headers()
        else:
            self._answer(state.body, "application/json", state.tag)

    def _answer(self, body: bytes, kind: str, tag: str = "") -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if tag:
            self.send_header("ETag", tag)
        self.end_headers()
        self.wfile.write(body)
