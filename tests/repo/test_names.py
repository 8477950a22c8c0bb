"""Names are the field's terms or plain descriptions, and a class has its name for itself."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("substrait_agg", "cli", "benchmarks", "tests")

FILES = """
    care heard alarm seeds recipes answers courier targets_of posts strangers kept shapes placed
    wanted visible ends leaving guard changed unchanged latest chains scans moving migrated
    derivation publishing_settle disk published local_copies deep measure_draft walk tally brief
    lies odd traps around rich held blow double told noted made written_by
""".split()
"""Names that a file must not have; `test_` in front of them does not help."""

CLASSES = """
    Care Post Courier Couriers KeptX Placed Exceeded Keyed Old Touched Folded Leaving Seeds Recipes
    Heard Told Noted Held Kept Draft Grid Sharing Shared Asked Ready Owner Slice Tally Given Seen
    Chains Context Settings Groups Tree Part Findings Reading Order Measure
""".split()
"""Names that a class must not have."""

FUNCTIONS = """
    care foreseen heard alarm recipes answers strangers leaving emptied freed recalled admit
    unchanged touched gather chains assign_chains lets_go kept_by settles added_up collapse
    local_copies make_draft told noted tally brief ends_alone wanted_columns wanted_values
    kept_operators kept_name kept_value most_leaving latest_step ends_delta places_of
""".split()
"""Names that a public function, method or field must not have."""

LOCALS = frozenset(
    """
    anew aside asked care chosen found given gone got heard held kept known made meant met picked
    taken there told
    wanted
    """.split()
)
"""Names that a parameter or a local variable of the product must not have."""

NUMERIC = ("evaluation", "functions/numbers", "operator", "spark/functions", "spark/types", "state")
"""Folders below `substrait_agg` whose formulas have names of one letter."""

ONE_LETTER = "ijxy"
"""Letters that any function may use: indices and points."""

CONTRACT = {"ends_alone"}
"""Keys of the explanation as JSON (docs/formats.md), which its classes have as fields."""

Named = tuple[str, str]
"""A place in the code, and the name."""


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def bare(name: str) -> str:
    return name.removeprefix("test_").lstrip("_")


@cache
def names_in(path: Path) -> tuple[list[str], list[str]]:
    """The classes of a file, and its functions and fields."""
    classes: list[str] = []
    others: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            others.append(node.name)
        elif isinstance(node, ast.ClassDef):
            classes.append(node.name)
            fields = (item.target for item in node.body if isinstance(item, ast.AnnAssign))
            others += [target.id for target in fields if isinstance(target, ast.Name)]
    return classes, others


def wrong(path: Path) -> list[str]:
    """The names in a file that the lists forbid."""
    classes, others = names_in(path)
    found = [path.stem] if bare(path.stem) in FILES else []
    found += [name for name in classes if bare(name) in CLASSES]
    public = (n for n in others if not n.startswith("_") and n not in CONTRACT)
    return found + [name for name in public if name in FUNCTIONS]


def bound_names(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the parameters of a function and the names that its body assigns.

    Comprehensions are left out.
    """
    arguments = function.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (argument.arg for argument in every)
    skipped: set[int] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.comprehension):
            skipped.update(id(part) for part in ast.walk(node.target))
        if (
            isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Store)
            and id(node) not in skipped
        ):
            yield node.id


def unclear(source: str, *, numeric: bool) -> set[str]:
    """Return the names of parameters and local variables that say nothing."""
    functions = (n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.FunctionDef))
    names = {name for function in functions for name in bound_names(function)}
    letters = {n for n in names if len(n) == 1 and n not in f"_{ONE_LETTER}" and not numeric}
    return names & LOCALS | letters


def test_locals_say_what_they_hold() -> None:
    """Parameters and local variables of the product have no listed name and no single letter."""
    names = {}
    for path in sources("substrait_agg", "cli"):
        place = str(path.relative_to(ROOT)).removeprefix("substrait_agg/")
        names[place] = unclear(path.read_text(), numeric=place.startswith(NUMERIC))
    assert not {place: found for place, found in names.items() if found}, "say what they hold"


def test_unclear_locals_are_found() -> None:
    """As parameters and in assignments; comprehensions and numeric code have short names."""
    source = (
        "def f(told):\n    found = [given for given in told]\n    k = 1\n    for i in found: pass\n"
    )
    assert unclear(source, numeric=False) == {"told", "found", "k"}
    assert unclear(source, numeric=True) == {"told", "found"}


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_name_has_to_be_guessed(folder: str) -> None:
    """No file, class or function has one of the listed names, which say nothing to a newcomer."""
    names = {str(path.relative_to(ROOT)): wrong(path) for path in sources(folder)}
    assert not {path: found for path, found in names.items() if found}


def test_wrong_names_are_found(tmp_path: Path) -> None:
    """In each kind of place."""
    path = tmp_path / "test_care.py"
    path.write_text(
        "class _Told:\n    heard: int\n    def chains(self): ...\n    def _care(self): ...\n"
    )
    assert wrong(path) == ["test_care", "_Told", "heard", "chains"]


IRREGULAR = frozenset(
    """
    begun bent bound bought broken brought built caught chosen dealt drawn driven eaten fallen fed felt
    flown found given gone grown held hidden kept known laid left lent lost made meant met paid proven
    said seen sent shown sought spent spoken struck stuck taken taught thought told thrown woken written
    """.split()
)
NOUNS = frozenset({"encoding", "listing", "mapping", "nothing", "string", "substring"})
"""Words that look like participles."""
SHARE = 0.01


def participle(name: str) -> bool:
    """Return whether a name is one word that does not say whether a function computes or changes."""
    word = name.strip("_")
    if "_" in word or word in NOUNS:
        return False
    return word in IRREGULAR or (word.endswith(("ed", "ing")) and len(word) > 4)


def is_property(function: ast.FunctionDef) -> bool:
    """Return whether a function is read as a value."""
    return any("property" in ast.unparse(each) for each in function.decorator_list)


def test_functions_are_verbs() -> None:
    """Less than a hundredth of the functions has the name of a participle; properties are nouns."""
    functions = [
        (path.relative_to(ROOT), node.name)
        for path in sources("substrait_agg", "cli")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and not is_property(node)
    ]
    wrong_names = [f"{path}: {name}" for path, name in functions if participle(name)]
    assert len(wrong_names) < SHARE * len(functions), "name what it does: " + ", ".join(wrong_names)


def test_participles_are_found() -> None:
    """Also irregular ones; two words, verbs and nouns are none."""
    names = ["_joined", "held", "matching", "read", "need", "_joined_rows", "mapping", "feed"]
    assert [name for name in names if participle(name)] == ["_joined", "held", "matching"]


def test_a_public_class_has_its_name_alone() -> None:
    """A name in an annotation identifies the class without a look at the imports."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sources("substrait_agg", "cli"):
        for name in names_in(path)[0]:
            places[name].append(str(path.relative_to(ROOT)))
    assert not {n: p for n, p in places.items() if len(p) > 1 and not n.startswith("_")}
