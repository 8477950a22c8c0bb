"""The context of decoding a plan: its declarations, its producer, and the problems found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from substrait_agg.plan.messages.node import MessageNode, Unreadable, nearest
from substrait_agg.plan.model import FunctionName
from substrait_agg.problems import Problems

MAX_PROBLEMS = 1_000
"""Number of problems after which decoding stops: a plan with more is damaged."""


SAID_ONCE = frozenset({"FIELD_REMOVED", "REFERENCE_ROOT_MISSING", "TYPE_VARIATION_ASSUMED"})
"""Problems of the whole plan, reported once at one of their places."""


class DecodeProblems:
    """Problems of the decode stage, without duplicates, at most `MAX_PROBLEMS`."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, tuple[tuple[str, str], ...]], dict[str, object]] = {}

    def report(self, code: str, path: str, **params: object) -> None:
        """Add a problem of kind `code` at `path`.

        Raises:
            Unreadable: the limit is exceeded.
        """
        key = (code, path, tuple((name, str(value)) for name, value in params.items()))
        if key not in self._found and len(self._found) >= MAX_PROBLEMS:
            raise Unreadable("TOO_MANY_PROBLEMS", path, limit=MAX_PROBLEMS)
        self._found[key] = params

    def forget(self, path: str) -> None:
        """Drop the problems below `path`, a copy of another place, except those in `SAID_ONCE`."""
        below = [k for k in self._found if k[1].startswith(path) and k[0] not in SAID_ONCE]
        for key in below:
            del self._found[key]

    def hand_on(self, problems: Problems, plan: MessageNode | None) -> None:
        """Add all problems to `problems`, sorted by their places in the plan if it is given."""
        entries = [(code, path, params) for (code, path, _), params in self._found.items()]
        if plan is not None:
            entries.sort(key=lambda item: nearest(plan, item[1]).place)
        for code, path, params in entries:
            problems.add(code, path, **params)


@dataclass(frozen=True, slots=True)
class TypeName:
    """An extension type or a type variation as the plan declares it; `urn` as in `FunctionName`."""

    name: str
    urn: str | None


@dataclass(slots=True)
class DecodeContext:
    """Declarations by anchor, the producer's name in lower case, and the problems found.

    A type or variation is None if its declaration has no name, which has been reported.
    `file_tables` has the names of the tables that are read as files, by the paths of the files.
    """

    findings: DecodeProblems
    producer: str = ""
    version: tuple[int, int, int] | None = None
    functions: dict[int, FunctionName] = field(default_factory=dict)
    types: dict[int, TypeName | None] = field(default_factory=dict)
    variations: dict[int, TypeName | None] = field(default_factory=dict)
    file_tables: dict[tuple[str, ...], str] = field(default_factory=dict)
    _said: set[tuple[str, str]] = field(default_factory=set)

    @property
    def datafusion(self) -> bool:
        """Return whether DataFusion wrote the plan, with type variations of its own."""
        return self.producer.startswith("datafusion")

    def report(self, code: str, path: str, **params: object) -> None:
        """Add a problem; see `Findings.report`."""
        self.findings.report(code, path, **params)

    def report_once(self, code: str, path: str) -> None:
        """Add a problem of the whole plan, at the first of its places."""
        if (code, "") not in self._said:
            self._said.add((code, ""))
            self.report(code, path)

    def report_removed(self, node: MessageNode, name: str, release: str) -> None:
        """Record that the plan uses a field which `release` removed.

        This is a problem if the plan states that version or a later one; it is reported once per
        kind of message.
        """
        minor = int(release.partition(".")[2])
        key = (node.shape.name, name)
        if self.version is None or self.version < (0, minor, 0) or key in self._said:
            return
        self._said.add(key)
        self.report(
            "FIELD_REMOVED",
            node.at(name),
            what="field",
            field=name,
            message=key[0],
            release=release,
            version=".".join(map(str, self.version)),
        )

    def drop_copied(self, node: MessageNode, name: str) -> None:
        """Drop the problems of a repeated field whose messages are copies of messages read elsewhere."""
        self.findings.forget(f"{node.at(name)}[")

    def variation_read(self, node: MessageNode, variation: int, kind: str, meaning: str) -> None:
        """Report that an undeclared type variation was read as its producer defines it.

        Each variation is reported once.
        """
        key = (kind, f"variation {variation}")
        if variation and key not in self._said:
            self._said.add(key)
            self.report(
                "TYPE_VARIATION_ASSUMED", node.path,
                variation=variation, type=kind, meant=meaning, producer="DataFusion",
            )  # fmt: skip

    def report_missing(self, node: MessageNode, name: str) -> None:
        """Report that a required field is missing."""
        self.report("FIELD_MISSING", node.path, field=name, message=node.shape.name)

    def function(self, anchor: int) -> FunctionName:
        """Return the function declared under `anchor`, or an unknown function."""
        function = self.functions.get(anchor)
        declared = f"anchor {anchor}"
        return function or FunctionName("", None, None, declared, known=False)


Handler = Callable[[MessageNode, DecodeContext], Any]
"""Decodes one message after its children."""


def each(node: MessageNode, name: str) -> Iterator[Any]:
    """Return the decoded messages of a repeated field."""
    return (child.result for child in node.messages(name))
