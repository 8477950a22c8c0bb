"""What decoding a plan shares: its declarations, its producer, and where problems go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from substrait_agg.plan.model import FunctionName
from substrait_agg.plan.node import Node, Unreadable, nearest
from substrait_agg.problems import Problems

MAX_PROBLEMS = 1_000
"""Problems after which decoding stops; a plan that has more is damaged, not mistaken."""


SAID_ONCE = frozenset({"FIELD_REMOVED", "REFERENCE_ROOT_MISSING", "TYPE_VARIATION_ASSUMED"})
"""Problems of a plan that are reported at one of their places."""


class Findings:
    """Problems of the decode stage: each once, at most `MAX_PROBLEMS`, handed on in plan order."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, tuple[tuple[str, str], ...]], dict[str, object]] = {}

    def report(self, code: str, path: str, **params: object) -> None:
        """Add a problem of kind `code` at `path`.

        Raises:
            Unreadable: there are too many.
        """
        key = (code, path, tuple((name, str(value)) for name, value in params.items()))
        if key not in self._found and len(self._found) >= MAX_PROBLEMS:
            raise Unreadable("TOO_MANY_PROBLEMS", path, limit=MAX_PROBLEMS)
        self._found[key] = params

    def forget(self, path: str) -> None:
        """Drop the problems below `path`, a copy of what is written elsewhere; those said once per plan stay."""
        below = [k for k in self._found if k[1].startswith(path) and k[0] not in SAID_ONCE]
        for key in below:
            del self._found[key]

    def hand_on(self, problems: Problems, plan: Node | None) -> None:
        """Add all to `problems`, in the order of their places in the plan if there is one."""
        found = [(code, path, params) for (code, path, _), params in self._found.items()]
        if plan is not None:
            found.sort(key=lambda item: nearest(plan, item[1]).place)
        for code, path, params in found:
            problems.add(code, path, **params)


@dataclass(frozen=True, slots=True)
class TypeName:
    """An extension type or a type variation as the plan declares it; `urn` as in `FunctionName`."""

    name: str
    urn: str | None


@dataclass(slots=True)
class Context:
    """Declarations by anchor, the producer's name in lower case, and the sink of problems.

    A type or variation is None where its declaration has no name, which has been reported.
    """

    findings: Findings
    producer: str = ""
    version: tuple[int, int, int] | None = None
    functions: dict[int, FunctionName] = field(default_factory=dict)
    types: dict[int, TypeName | None] = field(default_factory=dict)
    variations: dict[int, TypeName | None] = field(default_factory=dict)
    _said: set[tuple[str, str]] = field(default_factory=set)

    @property
    def datafusion(self) -> bool:
        """Whether DataFusion wrote the plan, whose type variations have a meaning of their own."""
        return self.producer.startswith("datafusion")

    def report(self, code: str, path: str, **params: object) -> None:
        """Add a problem; see `Findings.report`."""
        self.findings.report(code, path, **params)

    def report_once(self, code: str, path: str) -> None:
        """Add a problem of the whole plan at one of its places."""
        if (code, "") not in self._said:
            self._said.add((code, ""))
            self.report(code, path)

    def removed(self, node: Node, name: str, release: str) -> None:
        """Note that a field was read which `release` removed.

        It is a problem, once per plan and kind of message, where the plan says that it is of that release.
        """
        minor = int(release.partition(".")[2])
        key = (node.shape.name, name)
        if self.version is None or self.version < (0, minor, 0) or key in self._said:
            return
        self._said.add(key)
        self.report(
            "FIELD_REMOVED",
            node.at(name),
            field=name,
            message=key[0],
            release=release,
            version=".".join(map(str, self.version)),
        )

    def copied(self, node: Node, name: str) -> None:
        """Note that the messages in a repeated field say again what was read elsewhere."""
        self.findings.forget(f"{node.at(name)}[")

    def variation_read(self, node: Node, variation: int, kind: str, meant: str) -> None:
        """Note that an undeclared variation of a type was read as its producer means it; once per variation."""
        key = (kind, f"variation {variation}")
        if variation and key not in self._said:
            self._said.add(key)
            self.report(
                "TYPE_VARIATION_ASSUMED", node.path,
                variation=variation, type=kind, meant=meant, producer="DataFusion",
            )  # fmt: skip

    def missing(self, node: Node, name: str) -> None:
        """Report that a field that must be there is not."""
        self.report("FIELD_MISSING", node.path, field=name, message=node.shape.name)

    def function(self, anchor: int) -> FunctionName:
        """The function declared under `anchor`, or one that is not known."""
        known = self.functions.get(anchor)
        declared = f"anchor {anchor}"
        return known or FunctionName("", None, None, declared, known=False)


Handler = Callable[[Node, Context], Any]
"""Decodes one message whose children are decoded already."""


def each(node: Node, name: str) -> Iterator[Any]:
    """What the messages of a repeated field were decoded to."""
    return (child.result for child in node.messages(name))
