"""Read the FROM clauses of a query: the relations in them, and Spark's STREAM in front of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from substrait_agg.sql_planner.script import Statement
from substrait_agg.sql_planner.tokens import Token, tokens

_STARTS = ("from", "join")
_WITHIN = (
    "on",
    "using",
    "as",
    "inner",
    "left",
    "right",
    "full",
    "outer",
    "cross",
    "semi",
    "anti",
    "natural",
)
_ENDS = (
    "select", "where", "group", "order", "having", "limit", "offset", "union", "except", "intersect",
    "window", "qualify", "with", "fetch",
)  # fmt: skip
_BEFORE_NAME = ("lateral", "only", "stream")


def without_stream(statement: Statement) -> Statement:
    """Return a statement whose query has spaces instead of STREAM, so that places stay the same.

    ``FROM STREAM t`` and ``FROM STREAM(t)`` become ``FROM t``. Every table of a run is a stream.
    """
    text = list(statement.query)
    words = tokens(statement.query)
    for number, token in enumerate(words[:-1]):
        if not token.is_word("stream") or number == 0:
            continue
        before, after = words[number - 1], words[number + 1]
        in_from = before.is_word(*_STARTS) or before.text in (",", "(")
        if in_from and after.text == "(":
            close = _closing(words, number + 1)
            for place in (*range(token.start, after.end), close.start):
                text[place] = " "
        elif in_from and after.kind in ("word", "quoted") and not after.is_word(*_WITHIN, *_ENDS):
            text[token.start : token.end] = " " * len(token.text)
    return replace(statement, query="".join(text))


def _closing(words: Sequence[Token], opening: int) -> Token:
    """Return the token that closes a parenthesis; the last one if nothing does."""
    depth = 0
    for token in words[opening:]:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if not depth:
            return token
    return words[-1]


def relations_read(statement: Statement) -> frozenset[str]:
    """Return the names in the FROM clauses of a query, in lower case, without those of WITH.

    A name in another place, as in ``extract(day FROM t)``, may be among them.
    """
    words = tokens(statement.query)
    named = {
        t.name.lower()
        for t, as_, opened in zip(words, words[1:], words[2:], strict=False)
        if as_.is_word("as") and opened.text == "("
    }
    reads: set[str] = set()
    in_from, expected, number = [False], [False], 0
    while number < len(words):
        token = words[number]
        number += 1
        if token.text == "(":
            in_from.append(in_from[-1] and expected[-1])
            expected.append(expected[-1])
        elif token.text == ")" and len(in_from) > 1:
            in_from.pop()
            expected.pop()
            expected[-1] = False
        elif token.text == ",":
            expected[-1] = in_from[-1]
        elif token.is_word(*_STARTS):
            in_from[-1] = expected[-1] = True
        elif token.is_word(*_ENDS):
            in_from[-1] = expected[-1] = False
        elif expected[-1] and token.kind in ("word", "quoted") and not token.is_word(*_BEFORE_NAME):
            parts = [token.name]
            while number + 1 < len(words) and words[number].text == ".":
                parts.append(words[number + 1].name)
                number += 2
            reads.add(".".join(parts).lower())
            expected[-1] = False
    return frozenset(reads - named)
