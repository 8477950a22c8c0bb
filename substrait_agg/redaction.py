"""Passwords in texts that are shown: options with a telling name, and user information in addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable

REDACTED = "*****"
SECRET = re.compile(r"secret|passw|pwd|token|credential|access[._-]?key|account[._-]?key|api[._-]?key|jaas|sas", re.I)  # fmt: skip
USER_INFO = re.compile(r"(//[^/@:]*):[^/@]*@")

Options = Iterable[tuple[str, str]]


def redacted_place(text: str) -> str:
    """A location without the password in it."""
    return USER_INFO.sub(rf"\1:{REDACTED}@", text)


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
