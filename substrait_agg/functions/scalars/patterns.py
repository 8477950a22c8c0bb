"""Find patterns that mean different things in ICU, which the specification names, and in Java.

Spark runs Java's regular expressions. Patterns that only one of the two can compile are not
considered, because their result is undefined.

Source: https://unicode-org.github.io/icu/userguide/strings/regexp.html,
``java.util.regex.Pattern``.
"""

from __future__ import annotations

import re

_UNESCAPED = r"(?<!\\)(?:\\\\)*"

DIFFERENCES: tuple[tuple[str, str], ...] = (
    (r"\[\^?:\^?[A-Za-z_ ]+:\]", r"Java reads [:name:] as single letters; write \p{name}"),
    (r"\[[^\]]*--", "Java has no difference of sets (--); write &&[^...]"),
    (r"\[\^[^\]]*&&", "ICU and Java negate intersections of sets differently"),
    (
        r"\(\?[a-zA-Z]*-?[a-zA-Z]*[duUwW][a-zA-Z]*[:)]",
        "the flags d, u, U and w differ between ICU and Java",
    ),
    (r"\\U[0-9A-Fa-f]{8}", r"Java has no \Uhhhhhhhh; write \x{h...}"),
)
"""(regular expression of Python and Java, reason).

A pattern that contains a match differs in meaning, or is invalid in Java.
"""

ANY_DIFFERENCE = _UNESCAPED + "(?:" + "|".join(found for found, _ in DIFFERENCES) + ")"
"""Matches any of the differences."""


def difference(pattern: str) -> str:
    """Return why Java cannot run a pattern; empty if it can.

    >>> difference("[a-z--[aeiou]]")
    'Java has no difference of sets (--); write &&[^...]'
    """
    reasons = (reason for wanted, reason in DIFFERENCES if re.search(_UNESCAPED + wanted, pattern))
    return next(reasons, "")


REPLACEMENT_PARTS = r"\\[0-9]|\\[^0-9A-Za-z]|[^\\$]"
"""The parts of a replacement: backreferences, escaped characters, characters."""


def replacement_fault(replacement: str) -> str:
    r"""Return why a replacement cannot be used; empty if it can.

    ``\1`` denotes a group and ``\\`` a backslash; ``$1`` would be a group in ICU and no group in
    other dialects.
    """
    if re.fullmatch(f"(?:{REPLACEMENT_PARTS})*", replacement, re.DOTALL):
        return ""
    return r"write a dollar sign as \$, a backslash as \\, and a group as \1"
