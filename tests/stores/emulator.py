"""An S3 server on this machine: moto's over HTTP, with what a test needs to see and to break.

Its conditional writes are real: a PUT with ``If-None-Match: *`` of a name that is there is answered with 412. Writes are made one
after the other, because moto itself looks and writes in two steps.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

KEYS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing-secret-key",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_MAX_ATTEMPTS": "2",
}

Fault = Callable[[str, str], str]
"""Told method and path of a request: ``before`` (an error and nothing done), ``after`` (done, and an error), or nothing."""


class Emulator:
    """The server.

    Attributes:
        url: of it.
        requests: by method, of GET also whether it was a listing (``LIST``).
        unconditional: whether it overlooks conditions, as stores did that are older than these.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.unconditional = False
        self._app = DomainDispatcherApplication(create_backend_app)
        self._writes = threading.Lock()
        self._fault: Fault | None = None
        self._server = make_server("127.0.0.1", 0, self, threaded=True, request_handler=_Quiet)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @contextmanager
    def broken(self, fault: Fault) -> Iterator[None]:
        """Inject a fault for the duration of the block."""
        self._fault = fault
        try:
            yield
        finally:
            self._fault = None

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        is_list = method == "GET" and "list-type" in environ.get("QUERY_STRING", "")
        self.requests["LIST" if is_list else method] += 1
        when = self._fault(method, path) if self._fault else ""
        if when == "before":
            return _failed(start)
        if self.unconditional:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        if method not in ("PUT", "DELETE"):
            return self._app(environ, start)  # type: ignore[no-any-return]
        with self._writes:
            if when == "after":
                b"".join(self._app(environ, lambda *_: None))
                return _failed(start)
            return self._app(environ, start)  # type: ignore[no-any-return]

    def bucket(self, name: str) -> str:
        """A new bucket; returns its URL."""
        self.client().create_bucket(Bucket=name)
        return f"s3://{name}"

    def client(self) -> Any:
        """A client of Amazon's own."""
        return boto3.client("s3", endpoint_url=self.url)

    def keys(self, bucket: str) -> list[str]:
        """All names in a bucket."""
        pages = self.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]


def _failed(start: Any) -> Iterable[bytes]:
    body = b"<Error><Code>InternalError</Code><Message>planted</Message></Error>"
    start("500 Internal Server Error", [("Content-Type", "application/xml")])
    return [body]


class _Quiet(WSGIRequestHandler):  # type: ignore[misc]
    def log(self, *_: Any) -> None:
        pass


@contextmanager
def emulator() -> Iterator[Emulator]:
    """A server that this process and its children find by their environment."""
    with patch.dict(os.environ, KEYS):
        server = Emulator()
        os.environ["AWS_ENDPOINT_URL"] = server.url
        try:
            yield server
        finally:
            server.close()
