"""Where ICU's regular expressions, which the specification names, and Java's, which Spark runs, differ in meaning.

Patterns that only one of the two can compile are no concern: what they give is not defined.

Source: https://unicode-org.github.io/icu/userguide/strings/regexp.html, ``java.util.regex.Pattern``.
"""

from __future__ import annotations

import re

_UNESCAPED = r"(?<!\\)(?:\\\\)*"

DIFFERENCES: tuple[tuple[str, str], ...] = (
    (r"\[\^?:\^?[A-Za-z_ ]+:\]", r"Java reads [:name:] as letters; write \p{name}"),
    (r"\[[^\]]*--", "Java has no difference of sets (--); write &&[^...]"),
    (r"\[\^[^\]]*&&", "ICU and Java negate intersections of sets differently"),
    (
        r"\(\?[a-zA-Z]*-?[a-zA-Z]*[duUwW][a-zA-Z]*[:)]",
        "the flags d, u, U and w are not those of both",
    ),
    (r"\\U[0-9A-Fa-f]{8}", r"Java has no \Uhhhhhhhh; write \x{h...}"),
)
"""(regular expression of Python and Java, reason): patterns in which it is found mean different things, or nothing in Java."""

ANY_DIFFERENCE = _UNESCAPED + "(?:" + "|".join(found for found, _ in DIFFERENCES) + ")"
"""Finds any of them."""


def difference(pattern: str) -> str:
    """Why a pattern cannot be given to Java; empty where it can.

    >>> difference("[a-z--[aeiou]]")
    'Java has no difference of sets (--); write &&[^...]'
    """
    found = (reason for wanted, reason in DIFFERENCES if re.search(_UNESCAPED + wanted, pattern))
    return next(found, "")


REPLACEMENT_PARTS = r"\\[0-9]|\\[^0-9A-Za-z]|[^\\$]"
"""What a replacement is made of: backreferences, escaped characters, characters."""


def replacement_fault(replacement: str) -> str:
    r"""Why a replacement cannot be used; empty where it can.

    ``\1`` stands for a group and ``\\`` for a backslash; ``$1`` would be a group in ICU and no group in other dialects.
    """
    if re.fullmatch(f"(?:{REPLACEMENT_PARTS})*", replacement, re.DOTALL):
        return ""
    return r"a dollar sign is written \$, a backslash \\, a group \1"
