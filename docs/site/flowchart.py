"""Draw the flowcharts of the documentation, which are written in a part of Mermaid's language.

A flowchart has boxes (``a["text"]``), stores (``a[("text")]``), hexagons (``a{{"text"}}``), arrows with and
without text, and frames (``subgraph``). Lines of text are separated by ``<br/>``. Boxes are drawn in
layers: each arrow leads to a later layer. Other statements are refused, so that nothing is left out.
"""

from __future__ import annotations

import html
import itertools
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import drawing
from drawing import Rect

LETTERS = 60
"""Characters of a line in a box."""
GAP = 26
"""Between boxes of a layer, pixels."""
MARGIN = 8
FRAME = 12
"""Between a frame and what is in it."""
HEAD_LINE = re.compile(r"flowchart (LR|TB|TD)$")
SHAPES = (
    ("store", re.compile(r'\[\("?(.*?)"?\)\]')),
    ("hexagon", re.compile(r'\{\{"?(.*?)"?\}\}')),
    ("box", re.compile(r'\["?(.*?)"?\]')),
)
NAME = re.compile(r"\w+")
KIND = re.compile(r":::(\w+)")
LINKS = re.compile(
    r"\s*(?:(?P<both><-->)|(?P<plain>-->|-\.->|-\.-)(?:\|(?P<bar>[^|]*)\|)?"
    r"|--\s+(?P<words>.+?)\s+-->|-\.\s+(?P<dots>.+?)\s+\.->)\s*"
)


class NotDrawn(ValueError):
    """The text has a statement that this module cannot draw."""


@dataclass
class Box:
    """A box with text, or a frame with boxes in it.

    Attributes:
        name: the identifier.
        lines: the text; the title of a frame.
        shape: ``box``, ``store``, ``hexagon`` or ``frame``.
        kind: its class, which decides the colour.
        inside: the boxes of a frame.
        right: whether the layers of a frame go to the right.
    """

    name: str
    lines: list[str]
    shape: str = "box"
    kind: str = ""
    inside: list[Box] = field(default_factory=list)
    right: bool = True

    def names(self) -> Iterator[str]:
        """Yield its name and those of the boxes in it."""
        yield self.name
        for box in self.inside:
            yield from box.names()


@dataclass(frozen=True)
class Arrow:
    """A line from a box to another.

    Attributes:
        start: the name of the first box.
        end: the name of the second one.
        text: the label.
        dotted: whether the line is dotted.
        heads: the number of arrow heads: 0, 1 at the end, or 2.
    """

    start: str
    end: str
    text: str
    dotted: bool
    heads: int


Link = tuple[str, str, Arrow]
"""Two boxes of one frame, and the arrow that connects them or what is in them."""


@dataclass
class Chart:
    """A flowchart: its boxes, arrows and direction."""

    boxes: list[Box]
    arrows: list[Arrow]
    right: bool


def read(text: str) -> Chart:
    """Read a flowchart.

    Raises:
        NotDrawn: for a statement of another form.
    """
    chart, stack = Chart([], [], False), list[Box]()
    known: dict[str, Box] = {}
    for line in (line.strip() for line in text.strip().splitlines()):
        head = HEAD_LINE.match(line)
        if head:
            chart.right = head[1] == "LR"
        elif line.startswith("subgraph "):
            frame = _box(line.removeprefix("subgraph "), 0)[0]
            frame.shape = "frame"
            (stack[-1].inside if stack else chart.boxes).append(frame)
            stack.append(frame)
        elif line == "end":
            stack.pop()
        elif line.startswith("direction "):
            stack[-1].right = line == "direction LR"
        elif line and not line.startswith(("%%", "classDef")):
            _statement(line, chart, known, stack[-1].inside if stack else chart.boxes)
    return chart


def _statement(line: str, chart: Chart, known: dict[str, Box], into: list[Box]) -> None:
    box, at = _box(line, 0)
    before = _declared(box, known, into)
    while at < len(line):
        link = LINKS.match(line, at)
        if not link:
            raise NotDrawn(f"{line!r} at {line[at:]!r}")
        box, at = _box(line, link.end())
        after = _declared(box, known, into)
        label = link["bar"] or link["words"] or link["dots"] or ""
        dotted = bool(link["dots"]) or (link["plain"] or "").startswith("-.")
        heads = 2 if link["both"] else 0 if link["plain"] == "-.-" else 1
        chart.arrows.append(Arrow(before.name, after.name, _plain(label), dotted, heads))
        before = after


def _declared(box: Box, known: dict[str, Box], into: list[Box]) -> Box:
    if box.name not in known:
        known[box.name] = box
        into.append(box)
    elif box.lines != [box.name]:
        old = known[box.name]
        old.lines, old.shape, old.kind = box.lines, box.shape, box.kind or old.kind
    return known[box.name]


def _box(line: str, at: int) -> tuple[Box, int]:
    name = NAME.match(line, at)
    if not name:
        raise NotDrawn(f"{line!r} at {line[at:]!r}")
    box, at = Box(name[0], [name[0]]), name.end()
    for shape, form in SHAPES:
        text = form.match(line, at)
        if text:
            written = (_plain(part) for part in re.split(r"<br ?/?>", text[1]))
            box.lines = [w for part in written for w in textwrap.wrap(part, LETTERS) or [""]]
            box.shape, at = shape, text.end()
            break
    kind = KIND.match(line, at)
    if kind:
        box.kind, at = kind[1], kind.end()
    return box, at


def _plain(text: str) -> str:
    """Return a label without quotes and entities."""
    return html.unescape(re.sub(r"#(\d+);", r"&#\1;", text.strip().strip('"')))


def draw(text: str, title: str = "flowchart") -> str:
    """Draw a flowchart as SVG.

    Raises:
        NotDrawn: for a statement of another form.
    """
    chart = read(text)
    layout = _Layout(chart.arrows)
    places = layout.place(chart.boxes, chart.right)
    width = max(at.x + at.width for at in places.values())
    height = max(at.y + at.height for at in places.values())
    parts = list[str]()
    for box in _all(chart.boxes):
        if box.shape == "frame":
            at = places[box.name]
            parts.append(
                f'<rect class="frame" x="{at.x:.1f}" y="{at.y:.1f}" width="{at.width:.1f}" height="{at.height:.1f}" rx="6"/>'
            )
            parts.append(drawing.text(at.x + 10, at.y + 16, box.lines[0], "label", "start"))
    texts = list[str]()
    for arrow in chart.arrows:
        beside = [a for a in chart.arrows if a.start == arrow.start and a.text]
        share = (beside.index(arrow) + 1) / (len(beside) + 1) if arrow.text else 0.5
        way, right = layout.way(arrow, places), layout.goes_right(arrow)
        line, label = _arrow(arrow, way, right, 0.5 if right else share)
        parts += line
        texts += label
    for box in _all(chart.boxes):
        if box.shape != "frame":
            parts += drawing.box(places[box.name], box.lines, box.kind, box.shape)
    moved = [f'<g transform="translate({MARGIN},{MARGIN})">', *parts, *texts, "</g>"]
    return drawing.picture(moved, width + 2 * MARGIN, height + 2 * MARGIN, title)


def _all(boxes: Sequence[Box]) -> Iterator[Box]:
    for box in boxes:
        yield box
        yield from _all(box.inside)


class _Layout:
    """Places boxes in layers, so that arrows lead to later layers.

    An arrow over several layers gets a small empty box in each layer between, so that it passes beside
    the others.
    """

    def __init__(self, arrows: Sequence[Arrow]) -> None:
        self._arrows = arrows
        self._between: dict[Arrow, list[str]] = {}
        self._right: dict[Arrow, bool] = {}

    def way(self, arrow: Arrow, places: Mapping[str, Rect]) -> list[Rect]:
        """Return the boxes that an arrow connects, with the empty ones between."""
        return [places[n] for n in (arrow.start, *self._between.get(arrow, ()), arrow.end)]

    def goes_right(self, arrow: Arrow) -> bool:
        """Return whether the layers that an arrow connects are side by side."""
        return self._right[arrow]

    def place(self, boxes: Sequence[Box], right: bool) -> dict[str, Rect]:
        """Return the places of all boxes, also of those in frames. The whole begins at 0, 0."""
        inner = {box.name: self.place(box.inside, box.right) for box in boxes if box.inside}
        sizes = {box.name: self._size(box, inner.get(box.name, {})) for box in boxes}
        owner = {name: box.name for box in boxes for name in box.names()}
        links = [
            (owner[a.start], owner[a.end], a)
            for a in self._arrows
            if a.start in owner and a.end in owner and owner[a.start] != owner[a.end]
        ]
        self._right |= {arrow: right for _, _, arrow in links}
        layers = self._layers(list(sizes), links)
        links = self._stepwise(layers, links, sizes)
        outer = _coordinates(_ordered(layers, links), sizes, links, right)
        places = dict(outer)
        for name, within in inner.items():
            at = outer[name]
            places |= {n: r.moved(at.x + FRAME, at.y + FRAME + 14) for n, r in within.items()}
        return places

    def _stepwise(
        self, layers: list[list[str]], links: list[Link], sizes: dict[str, tuple[float, float]]
    ) -> list[Link]:
        """Return links between neighbouring layers only, with the empty boxes that this needs."""
        depth = {name: number for number, layer in enumerate(layers) for name in layer}
        steps = list[Link]()
        for count, (start, end, arrow) in enumerate(links):
            passed = [f"{count}/{n}" for n in range(depth[start] + 1, depth[end])]
            for name, number in zip(passed, range(depth[start] + 1, depth[end]), strict=True):
                layers[number].append(name)
                sizes[name] = (2.0, 2.0)
            self._between[arrow] = passed
            chain = [start, *passed, end]
            steps += [(a, b, arrow) for a, b in itertools.pairwise(chain)]
        return steps

    def _size(self, box: Box, inner: Mapping[str, Rect]) -> tuple[float, float]:
        if box.shape != "frame":
            return drawing.block_size(box.lines)
        width = max(r.x + r.width for r in inner.values()) + 2 * FRAME
        height = max(r.y + r.height for r in inner.values()) + 2 * FRAME + 14
        return max(width, drawing.text_width(box.lines[0]) + 2 * FRAME), height

    def _layers(self, names: list[str], links: list[Link]) -> list[list[str]]:
        """Return the boxes by the length of the longest way to them."""
        depth = dict.fromkeys(names, 0)
        for _ in names:
            for start, end, _arrow in links:
                depth[end] = max(depth[end], depth[start] + 1)
        if depth and max(depth.values()) >= len(names):
            raise NotDrawn("the arrows form a circle")
        # A source stands right before the first box that reads it.
        for name in names:
            later = [depth[end] for start, end, _ in links if start == name]
            if later and not any(end == name for _, end, _ in links):
                depth[name] = min(later) - 1
        layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
        for name in names:
            layers[depth[name]].append(name)
        return layers


def _ordered(layers: list[list[str]], links: list[Link]) -> list[list[str]]:
    """Order each layer by the mean position of what its boxes are linked with, so that few arrows cross."""
    position = {n: i - (len(layer) - 1) / 2 for layer in layers for i, n in enumerate(layer)}
    for turn in range(6):
        for layer in layers if turn % 2 == 0 else layers[::-1]:
            means = {n: _mean(n, position, links, turn % 2 == 0) for n in layer}
            layer.sort(key=means.__getitem__)
            for i, name in enumerate(layer):
                position[name] = i - (len(layer) - 1) / 2
    return layers


def _coordinates(
    layers: list[list[str]],
    sizes: Mapping[str, tuple[float, float]],
    links: list[Link],
    right: bool,
) -> dict[str, Rect]:
    """Return the place of each box: layers one after another, boxes near those that they are linked with."""
    along, across = (0, 1) if right else (1, 0)
    middle = dict.fromkeys(sizes, 0.0)
    for turn in range(9):
        for layer in layers if turn % 2 == 0 else layers[::-1]:
            wanted = {n: _mean(n, middle, links, turn % 2 == 0) for n in layer}
            _align(layer, wanted, {n: sizes[n][across] for n in layer}, middle)
    first = min(middle[n] - sizes[n][across] / 2 for n in middle)
    places, at = {}, 0.0
    for layer in layers:
        thick = max(sizes[n][along] for n in layer)
        for name in layer:
            size = sizes[name]
            a = at + (thick - size[along]) / 2
            b = middle[name] - size[across] / 2 - first
            places[name] = Rect(*((a, b) if right else (b, a)), *size)
        texts = [arrow.text for start, _, arrow in links if start in layer and arrow.text]
        at += thick + _gap(texts, right)
    return places


def _gap(texts: Sequence[str], right: bool) -> float:
    """Return the room after a layer: enough for the texts of its arrows."""
    if not right:
        return 44 if texts else 30
    return max([34, *(drawing.text_width(text, 11.5) + 34 for text in texts)])


def _mean(name: str, position: Mapping[str, float], links: list[Link], above: bool) -> float:
    near = [position[s] for s, e, _ in links if e == name] if above else []
    near = near or [position[e] for s, e, _ in links if s == name]
    near = near or [position[s] for s, e, _ in links if e == name]
    return sum(near) / len(near) if near else position[name]


def _align(
    layer: Sequence[str],
    wanted: Mapping[str, float],
    sizes: Mapping[str, float],
    middle: dict[str, float],
) -> None:
    """Move the boxes of a layer to where they are wanted, in their order and without overlap."""
    free = -1e9
    for name in layer:
        middle[name] = max(wanted[name], free + sizes[name] / 2)
        free = middle[name] + sizes[name] / 2 + GAP
    shift = sum(wanted[n] - middle[n] for n in layer) / len(layer)
    for name in layer:
        middle[name] += shift


def _arrow(
    arrow: Arrow, way: Sequence[Rect], right: bool, share: float
) -> tuple[list[str], list[str]]:
    """Return the line of an arrow, and its label after this share of the first part of the line."""
    points = [p for i, at in enumerate(way) for p in _ends(at, right, i, len(way))]
    path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        half_x, half_y = (x1 + x2) / 2, (y1 + y2) / 2
        bend = (half_x, y1, half_x, y2) if right else (x1, half_y, x2, half_y)
        path += " C{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}".format(*bend, x2, y2)
    dotted = " dotted" if arrow.dotted else ""
    parts = [f'<path class="edge{dotted}" d="{path}"/>']
    ahead = (1.0, 0.0) if right else (0.0, 1.0)
    if arrow.heads:
        parts.append(drawing.arrow_head(points[-1], ahead))
    if arrow.heads == 2:
        parts.append(drawing.arrow_head(points[0], (-ahead[0], -ahead[1])))
    (x1, y1), (x2, y2) = points[0], points[1]
    # A line leaves and enters its boxes straight, so it is where this curve is.
    curve = share**2 * (3 - 2 * share)
    x, y = (share, curve) if right else (curve, share)
    texts = drawing.label(x1 + (x2 - x1) * x, y1 + (y2 - y1) * y, arrow.text) if arrow.text else []
    return parts, texts


def _ends(at: Rect, right: bool, number: int, count: int) -> list[tuple[float, float]]:
    """Return where an arrow leaves the first box, enters the last one, or passes one between."""
    x, y = at.middle
    if 0 < number < count - 1:
        return [(x, y)]
    last = number > 0
    if right:
        return [(at.x if last else at.x + at.width, y)]
    return [(x, at.y if last else at.y + at.height)]
