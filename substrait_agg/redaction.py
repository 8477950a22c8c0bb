"""Remove secrets from texts that are shown: values of options, and user information in addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from json import dumps
from threading import Lock
from urllib.parse import quote, quote_plus, unquote

REDACTED = "*****"
SECRET = re.compile(
    r"secret|passw|passphrase|pwd|\bpass\b|token|credential|private[._-]?key|keystore[._-]?key"
    r"|(?:access|account|api|auth|shared|encryption|storage|master)[._-]?key|conn(?:ection)?[._-]?str(?:ing)?|\bdsn\b"
    r"|authorization|user[._-]info|jaas|sas|\bsig\b|signature",
    re.I,
)
"""Names of options whose values are secrets."""

_NAME = rf"(?:{SECRET.pattern})[\w.-]{{0,40}}"
_QUOTED = r"\\{0,3}\"(?:[^\"\\]|\\(?!\"\s*[,;}\])])[^\"]?){0,2000}\"?|'[^']{0,2000}'?"
_PLAIN = r"[^&;,\s)}\]<]+"

PAIRS = (
    # name=value in addresses, also with %3D; name => value and name -> value in printed maps
    rf"({_NAME}\\{{0,3}}[\"']?\s{{0,3}}(?:=>|->|=|%3D)\s{{0,3}})({_QUOTED}|{_PLAIN})",
    # "name": "value", as in JSON
    rf"({_NAME}\\{{0,3}}[\"']\s{{0,3}}:\s{{0,3}})({_QUOTED}|{_PLAIN})",
    # name: value in prose, only for names that have no other meaning
    rf"((?:passw(?:or)?d|passphrase|secret|pwd)\s{{0,3}}:\s{{0,3}})({_QUOTED}|{_PLAIN})",
    # --name value, as in commands
    rf"(--[\w.-]{{0,40}}{_NAME}\s{{1,3}})({_QUOTED}|{_PLAIN})",
    # Authorization: Bearer value
    r"((?:authorization\s{0,3}[:=]\s{0,3}(?:[a-z]{1,20}\s{1,3})?|\bbearer\s{1,3}))()[\w.~+/=-]{6,}",
    # <name>value</name>
    rf"(<[\w.-]{{0,40}}{_NAME}>)([^<]+)",
)
_PAIRS = tuple(re.compile(pattern, re.I) for pattern in PAIRS)
"""Patterns of a secret within a value: group 1 is the text before the secret, group 2 the secret."""

MIN_KNOWN = 4
"""Length from which on a remembered secret is replaced in other texts.

Shorter secrets would match too much of a text.
"""

_known: dict[str, None] = {}
_lock = Lock()

USER_INFO = (
    # The password ends at the last @ of the host, because keys of S3 contain slashes. A number
    # followed by a slash is a port and a path instead.
    re.compile(r"(//[^/@:\s\[]{0,200}):(?!\d*/)([^\s?#\"'<>]{0,500})@"),
    re.compile(r"(jdbc:oracle:\w{1,20}:[^/@\s]{0,200})/([^@\s]{0,500})@", re.I),
)
"""User information in an address: group 1 is the text before the password, group 2 the password."""

Options = Iterable[tuple[str, str]]


def redacted_place(text: str) -> str:
    """Return a location without the passwords in it.

    >>> redacted_place("jdbc:postgresql://user:pw@host/db?password=pw")
    'jdbc:postgresql://user:*****@host/db?password=*****'
    """
    for pattern, sign in zip(USER_INFO, ":/", strict=True):
        text = pattern.sub(rf"\1{sign}{REDACTED}@", text)
    for pattern in _PAIRS:
        text = pattern.sub(rf"\1{REDACTED}", text)
    return text


def redacted_options(options: Options) -> str:
    """Return options as ``key=value&...`` without secrets.

    >>> redacted_options([("topic", "t"), ("password", "pw")])
    'topic=t&password=*****'
    """
    return "&".join(
        f"{key}={REDACTED if SECRET.search(key) else redacted_place(value)}"
        for key, value in options
    )


def scrub(text: str, options: Options) -> str:
    """Return a text, such as an error of another program, without the secrets of some options."""
    return redacted_place(_without(text, _forms(_secrets(options))))


def remember(options: Options) -> None:
    """Remember the secrets of some options for `clean`: errors from Spark may quote them."""
    forms = _forms(secret for secret in _secrets(options) if len(secret) >= MIN_KNOWN)
    with _lock:
        _known.update(dict.fromkeys(forms))


def clean(text: str) -> str:
    """Return a text of another program without any secret that this process has remembered."""
    with _lock:
        secrets = list(_known)
    return redacted_place(_without(text, secrets))


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return text


def _secrets(options: Options) -> Iterator[str]:
    """Yield the values of secret options, and secrets within the values of all options.

    Errors may quote such an inner secret alone.
    """
    for key, value in options:
        if SECRET.search(key) and value:
            yield value
        for pattern in (*USER_INFO, *_PAIRS):
            for match in pattern.finditer(value):
                inner = match[2].strip("\\\"'")
                if len(inner) >= MIN_KNOWN:
                    yield inner


def _forms(secrets: Iterable[str]) -> list[str]:
    """Return secrets as they are, percent-encoded, and escaped as in JSON."""
    forms = (
        (s, quote(s, safe=""), quote(s), quote_plus(s), unquote(s), dumps(s)[1:-1], dumps(s, ensure_ascii=False)[1:-1])
        for s in secrets
    )  # fmt: skip
    return list(dict.fromkeys(form for variants in forms for form in variants if form))


def safe_cause(error: BaseException) -> BaseException | None:
    """Return an exception for use as the cause of another; None if its text contains a secret.

    A traceback would show the text of the cause.
    """
    return error if clean(str(error)) == str(error) else None
