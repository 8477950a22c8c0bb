"""Parse HTML pages and find their elements."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "wbr", "br", "img", "input"}


@dataclass(eq=False)
class Element:
    """An element with its attributes, its children, and the texts directly in it."""

    tag: str
    attributes: dict[str, str]
    parent: Element | None
    children: list[Element | str] = field(default_factory=list)

    def text(self) -> str:
        return "".join(c if isinstance(c, str) else c.text() for c in self.children)

    def every(self) -> list[Element]:
        """All elements inside, each before its children."""
        found: list[Element] = []
        pending: list[Element | str] = [self]
        while pending:
            at = pending.pop()
            if isinstance(at, Element):
                found.append(at)
                pending.extend(reversed(at.children))
        return found[1:]

    def of(self, tag: str = "", kind: str = "") -> list[Element]:
        """All elements inside with this tag and this class."""
        return [
            e
            for e in self.every()
            if tag in ("", e.tag) and (not kind or kind in e.attributes.get("class", "").split())
        ]

    def step(self) -> str:
        """The step of the path that a node or row of the tree shows."""
        direct = [c for c in self.children if isinstance(c, Element)]
        if direct and direct[0].tag in ("details", "div"):
            direct = [c for c in direct[0].children if isinstance(c, Element)]
            if direct and direct[0].tag == "summary":
                direct = [c for c in direct[0].children if isinstance(c, Element)]
        steps = [c for c in direct if "step" in c.attributes.get("class", "")]
        return steps[0].text() if steps else ""

    def path(self, page: Element) -> str:
        """The path in the plan of the node or row that contains this element."""
        steps: list[str] = []
        at: Element | None = self
        while at is not None:
            if at.tag == "li":
                steps.append(at.step())
            origin = at.attributes.get("data-from")
            at = at.parent if origin is None else by_id(page)[origin].parent
        return ".".join(filter(None, reversed(steps)))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.at = Element("", {}, None)
        self.root = self.at

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, {name: value or "" for name, value in attrs}, self.at)
        self.at.children.append(made)
        if tag not in VOID:
            self.at = made

    def handle_endtag(self, tag: str) -> None:
        assert self.at.tag == tag, f"</{tag}> closes <{self.at.tag}>"
        assert self.at.parent is not None
        self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        self.at.children.append(data)


def parsed(html: str) -> Element:
    """The page as a tree; every element has to be closed in the element where it was opened."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.at is reader.root, f"<{reader.at.tag}> is not closed"
    return reader.root


def by_id(page: Element) -> dict[str, Element]:
    """All elements by their id, which has to be unique."""
    found: dict[str, Element] = {}
    for element in page.every():
        name = element.attributes.get("id")
        if name is not None:
            assert name not in found, name
            found[name] = element
    return found
