"""Passwords in texts that are shown: options with a telling name, and user information in addresses."""

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
    # name=value, as in addresses, with the sign percent-encoded too, and name => value, name -> value, as maps are printed
    rf"({_NAME}\\{{0,3}}[\"']?\s{{0,3}}(?:=>|->|=|%3D)\s{{0,3}})({_QUOTED}|{_PLAIN})",
    # "name": "value", as in JSON
    rf"({_NAME}\\{{0,3}}[\"']\s{{0,3}}:\s{{0,3}})({_QUOTED}|{_PLAIN})",
    # name: value, in prose only of names that are words of nothing else
    rf"((?:passw(?:or)?d|passphrase|secret|pwd)\s{{0,3}}:\s{{0,3}})({_QUOTED}|{_PLAIN})",
    # --name value, as in commands
    rf"(--[\w.-]{{0,40}}{_NAME}\s{{1,3}})({_QUOTED}|{_PLAIN})",
    # Authorization: Bearer value
    r"((?:authorization\s{0,3}[:=]\s{0,3}(?:[a-z]{1,20}\s{1,3})?|\bbearer\s{1,3}))()[\w.~+/=-]{6,}",
    # <name>value</name>
    rf"(<[\w.-]{{0,40}}{_NAME}>)([^<]+)",
)
_PAIRS = tuple(re.compile(pattern, re.I) for pattern in PAIRS)
"""A secret within a value: what comes before it, and the secret."""

MIN_KNOWN = 4
"""Characters from which on a secret is looked for in texts of others; shorter ones would blank out half of a text."""

_known: dict[str, None] = {}
_lock = Lock()

USER_INFO = (
    # Up to the last @ of the host; a number and a slash are a port and a path instead. Keys of S3 have slashes in them.
    re.compile(r"(//[^/@:\s\[]{0,200}):(?!\d*/)([^\s?#\"'<>]{0,500})@"),
    re.compile(r"(jdbc:oracle:\w{1,20}:[^/@\s]{0,200})/([^@\s]{0,500})@", re.I),
)
"""User information in an address: what comes before the password, and the password."""

Options = Iterable[tuple[str, str]]


def redacted_place(text: str) -> str:
    """A location without the password in it."""
    for pattern, sign in zip(USER_INFO, ":/", strict=True):
        text = pattern.sub(rf"\1{sign}{REDACTED}@", text)
    for pattern in _PAIRS:
        text = pattern.sub(rf"\1{REDACTED}", text)
    return text


def redacted_options(options: Options) -> str:
    """Options as ``key=value&...`` without secrets."""
    return "&".join(
        f"{key}={REDACTED if SECRET.search(key) else redacted_place(value)}"
        for key, value in options
    )


def scrubbed(text: str, options: Options) -> str:
    """A text, such as an error of another program, without the secrets of some options."""
    return redacted_place(_without(text, _forms(_secrets(options))))


def remember(options: Options) -> None:
    """Note the secrets of some options, for `cleaned`: what Spark says of a failure may quote them."""
    found = _forms(secret for secret in _secrets(options) if len(secret) >= MIN_KNOWN)
    with _lock:
        _known.update(dict.fromkeys(found))


def cleaned(text: str) -> str:
    """A text of another program without any secret that this process was given in options."""
    with _lock:
        known = list(_known)
    return redacted_place(_without(text, known))


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return text


def _secrets(options: Options) -> Iterator[str]:
    """The values of options with a telling name, and what is secret within any value: others may quote that alone."""
    for key, value in options:
        if SECRET.search(key) and value:
            yield value
        for pattern in (*USER_INFO, *_PAIRS):
            for found in pattern.finditer(value):
                inner = found[2].strip("\\\"'")
                if len(inner) >= MIN_KNOWN:
                    yield inner


def _forms(secrets: Iterable[str]) -> list[str]:
    """Secrets as they are, and as addresses and JSON write them."""
    forms = (
        (s, quote(s, safe=""), quote(s), quote_plus(s), unquote(s), dumps(s)[1:-1], dumps(s, ensure_ascii=False)[1:-1])
        for s in secrets
    )  # fmt: skip
    return list(dict.fromkeys(form for made in forms for form in made if form))


def safe_cause(error: BaseException) -> BaseException | None:
    """The exception as the cause of one of ours; None where its text holds a secret, which a traceback would show."""
    return error if cleaned(str(error)) == str(error) else None
