"""A strict reader of Prometheus' text format: anything that the format does not allow is an error."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
VALUE = re.compile(r"[+-]Inf|NaN|[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
KINDS = {"counter", "gauge", "histogram", "summary", "untyped"}
UNESCAPED = {r"\\": "\\", r"\n": "\n", r"\"": '"'}

Labels = frozenset[tuple[str, str]]


@dataclass
class Family:
    """A metric: its kind, its help, and its samples by name and labels."""

    name: str
    kind: str
    help: str
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def value(self, **labels: str) -> float:
        """The one sample of the metric's own name with these labels, among others."""
        found = [
            v for (name, has), v in self.samples.items()
            if name == self.name and labels.items() <= dict(has).items()
        ]  # fmt: skip
        assert len(found) == 1, (self.name, labels, len(found))
        return found[0]


def parse(text: str) -> dict[str, Family]:
    """The families of a text by name.

    Every family has HELP, then TYPE, then all its samples together; no sample comes twice; there are no timestamps.
    """
    assert text.endswith("\n")
    families: dict[str, Family] = {}
    now = Family("", "", "")
    awaited = ""
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            assert not awaited, line
            _, _, name, help = line.split(" ", 3)
            assert NAME.fullmatch(name), line
            assert name not in families, line
            assert not re.search(r"\\(?![\\n])", help.replace(r"\\", "")), line
            now = families[name] = Family(name, "", help)
            awaited = name
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == awaited == now.name, line
            assert kind in KINDS, line
            now.kind, awaited = kind, ""
        else:
            assert not awaited, line
            _sample(line, now)
    for family in families.values():
        _check(family)
    return families


def _sample(line: str, family: Family) -> None:
    found = SAMPLE.fullmatch(line)
    assert found, line
    ends = ("", "_bucket", "_sum", "_count") if family.kind == "histogram" else ("",)
    assert found["name"] in {family.name + end for end in ends}, line
    assert VALUE.fullmatch(found["value"]), line
    key = found["name"], _labels(found["labels"] or "", line)
    assert key not in family.samples, line
    family.samples[key] = float(found["value"])


def _labels(text: str, line: str) -> Labels:
    labels: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = LABEL.match(text, at)
        assert found, line
        assert found[1] not in labels, line
        labels[found[1]] = re.sub(r"\\.", lambda escape: UNESCAPED[escape[0]], found[2])
        at = found.end()
        assert at == len(text) or text[at] == ",", line
        at += 1
    return frozenset(labels.items())


def _check(family: Family) -> None:
    assert family.samples, family.name
    assert (family.kind == "counter") == family.name.endswith("_total"), family.name
    assert family.help, family.name
    if family.kind == "histogram":
        _check_histogram(family)


def _check_histogram(family: Family) -> None:
    buckets: dict[Labels, list[tuple[float, float]]] = {}
    for (name, labels), value in family.samples.items():
        if name == f"{family.name}_bucket":
            bound = dict(labels)["le"]
            rest = frozenset(pair for pair in labels if pair[0] != "le")
            buckets.setdefault(rest, []).append((float(bound), value))
    for labels, counts in buckets.items():
        counts.sort()
        assert counts[-1][0] == float("inf")
        assert [n for _, n in counts] == sorted(n for _, n in counts), "buckets are cumulative"
        assert counts[-1][1] == family.samples[(f"{family.name}_count", labels)]
        assert (f"{family.name}_sum", labels) in family.samples
