"""Locations of checkpoints: a folder of a file system, or a prefix in an object store."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
_CUT_SHORT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/[^/]")
"""A URL that was passed through `Path`, which merges the two slashes."""


@dataclass(frozen=True, slots=True, order=True)
class Remote:
    """A name in an object store, with an interface like that of `Path`.

    Functions of `os` do not accept it.

    Attributes:
        scheme: scheme of the URL, such as ``s3``.
        key: the part after ``://``: the bucket and the names below it, joined by ``/``.

    >>> str(Remote("s3", "bucket/prefix") / "name")
    's3://bucket/prefix/name'
    """

    scheme: str
    key: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.key}"

    def __truediv__(self, name: str) -> Remote:
        return Remote(self.scheme, f"{self.key}/{name}")

    @property
    def name(self) -> str:
        """Return the last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> Remote:
        """Return the location without its last part."""
        return Remote(self.scheme, self.key.rpartition("/")[0])

    @property
    def stem(self) -> str:
        """Return the last part without its suffix."""
        return Path(self.name).stem

    @property
    def root(self) -> Remote:
        """Return the bucket."""
        return Remote(self.scheme, self.key.partition("/")[0])

    def with_suffix(self, suffix: str) -> Remote:
        """Return the location with another suffix."""
        return self.parent / Path(self.name).with_suffix(suffix).name

    def absolute(self) -> Remote:
        """Return the location itself: a remote location is always absolute."""
        return self


Location = Path | Remote
"""A folder or a file, local or remote."""


class LocationInvalid(ValueError):
    """A text is not the URL of a checkpoint. The message is safe to show, unlike the text."""


def location_of(place: str | Path | Remote) -> Location:
    """Return the location of a path or URL.

    ``SCHEME://BUCKET/PREFIX`` is in an object store; ``file://PATH`` and any other text is a path.

    >>> location_of("s3://bucket/prefix/")
    Remote(scheme='s3', key='bucket/prefix')
    >>> location_of("out/checkpoint")
    PosixPath('out/checkpoint')

    Raises:
        LocationInvalid: the URL has no bucket, or has a password, a query or a fragment; or a URL
            was given as a `Path`.
    """
    if isinstance(place, Remote):
        return place
    if isinstance(place, Path):
        if _CUT_SHORT.match(str(place)):
            raise LocationInvalid("a URL cannot be a Path: give it as a str")
        return place
    match = _URL.fullmatch(place)
    if match is None:
        return Path(place)
    scheme, rest = match.group(1).lower(), match.group(2)
    if scheme == "file":
        return Path(unquote(rest))
    return Remote(scheme, _key(rest))


def _key(rest: str) -> str:
    parts = [part for part in rest.split("/") if part]
    if not parts:
        raise LocationInvalid("the URL has no bucket")
    if "@" in parts[0] and ":" in parts[0].partition("@")[0]:
        raise LocationInvalid("the URL contains a password, which would be shown and stored")
    if any(mark in rest for mark in "?#"):
        raise LocationInvalid("the URL contains options (? or #)")
    if any(part in (".", "..") for part in parts):
        raise LocationInvalid("the URL contains . or .., which are ordinary names in a store")
    return "/".join(parts)
