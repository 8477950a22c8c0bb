"""Where a checkpoint lies: a folder of a file system, or a prefix of an object store."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
_CUT_SHORT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/[^/]")
"""What is left of a URL that went through `Path`."""


@dataclass(frozen=True, slots=True, order=True)
class Remote:
    """A name in an object store; it is joined, split and shown as a `Path` is, and no function of `os` takes it.

    Attributes:
        scheme: of its URL, such as ``s3``.
        key: what follows ``://``: the bucket and the names below it, joined by ``/``.
    """

    scheme: str
    key: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.key}"

    def __truediv__(self, name: str) -> Remote:
        return Remote(self.scheme, f"{self.key}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> Remote:
        """All but the last part."""
        return Remote(self.scheme, self.key.rpartition("/")[0])

    @property
    def stem(self) -> str:
        """The last part without its suffix."""
        return Path(self.name).stem

    @property
    def root(self) -> Remote:
        """The bucket."""
        return Remote(self.scheme, self.key.partition("/")[0])

    def with_suffix(self, suffix: str) -> Remote:
        """The same with another suffix."""
        return self.parent / Path(self.name).with_suffix(suffix).name

    def absolute(self) -> Remote:
        """The same: there is no current bucket."""
        return self


Location = Path | Remote
"""A folder or a file, wherever it is."""


class LocationInvalid(ValueError):
    """A text is no URL of a checkpoint; its message may be shown, the text itself not."""


def located(place: str | Path | Remote) -> Location:
    """The place that is meant: ``SCHEME://BUCKET/PREFIX`` is in an object store, all else a path, also ``file://PATH``.

    Raises:
        LocationInvalid: a URL without a bucket, with a password, a query or a fragment; or one that went through `Path`.
    """
    if isinstance(place, Remote):
        return place
    if isinstance(place, Path):
        if _CUT_SHORT.match(str(place)):
            raise LocationInvalid("a URL is no Path: give it as a str")
        return place
    found = _URL.fullmatch(place)
    if found is None:
        return Path(place)
    scheme, rest = found.group(1).lower(), found.group(2)
    if scheme == "file":
        return Path(unquote(rest))
    return Remote(scheme, _key(rest))


def _key(rest: str) -> str:
    parts = [part for part in rest.split("/") if part]
    if not parts:
        raise LocationInvalid("the URL names no bucket")
    if "@" in parts[0] and ":" in parts[0].partition("@")[0]:
        raise LocationInvalid("the URL holds a password, which would be shown and kept")
    if any(mark in rest for mark in "?#"):
        raise LocationInvalid("the URL holds options (? or #)")
    if any(part in (".", "..") for part in parts):
        raise LocationInvalid(
            "the URL has . or .. in it, which are names like any other in a store"
        )
    return "/".join(parts)
