"""Passwords in texts that are shown: options with a telling name, and user information in addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from threading import Lock

REDACTED = "*****"
SECRET = re.compile(
    r"secret|passw|passphrase|pwd|token|credential|private[._-]?key|keystore[._-]?key|(?:access|account|api|auth|shared)[._-]?key"
    r"|connection[._-]?string|authorization|jaas|sas|\bsig\b|signature",
    re.I,
)
"""Names of options whose values are secrets."""

PAIR = re.compile(
    rf"((?:{SECRET.pattern})[\w.-]{{0,40}}\s{{0,3}}=\s{{0,3}})(\"[^\"]*\"|'[^']*'|[^&;,\s)]+)", re.I
)
"""A secret within a value, such as an address: ``password=...``."""

MIN_KNOWN = 4
"""Characters from which on a secret is looked for in texts of others; shorter ones would blank out half of a text."""

_known: dict[str, None] = {}
_lock = Lock()

USER_INFO = re.compile(r"(//[^/@:]*):[^/@]*@")

Options = Iterable[tuple[str, str]]


def redacted_place(text: str) -> str:
    """A location without the password in it."""
    return PAIR.sub(rf"\1{REDACTED}", USER_INFO.sub(rf"\1:{REDACTED}@", text))


def redacted_options(options: Options) -> str:
    """Options as ``key=value&...`` without secrets."""
    return "&".join(
        f"{key}={REDACTED if SECRET.search(key) else redacted_place(value)}"
        for key, value in options
    )


def scrubbed(text: str, options: Options) -> str:
    """A text, such as an error of another program, without the secrets of some options."""
    secrets = [value for key, value in options if SECRET.search(key) and value]
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return redacted_place(text)


def remember(options: Options) -> None:
    """Note the secrets of some options, for `cleaned`: what Spark says of a failure may quote them."""
    secrets = [value for key, value in options if SECRET.search(key) and len(value) >= MIN_KNOWN]
    with _lock:
        _known.update(dict.fromkeys(secrets))


def cleaned(text: str) -> str:
    """A text of another program without any secret that this process was given in options."""
    with _lock:
        secrets = sorted(_known, key=len, reverse=True)
    for secret in secrets:
        text = text.replace(secret, REDACTED)
    return redacted_place(text)


def safe_cause(error: BaseException) -> BaseException | None:
    """The exception as the cause of one of ours; None where its text holds a secret, which a traceback would show."""
    return error if cleaned(str(error)) == str(error) else None
