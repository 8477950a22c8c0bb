"""The published extension file of the window functions: valid by the standard's schema, and what binding does."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from substrait_agg.bind.plan.dialect import support_of, type_of
from substrait_agg.functions.scalars.catalogue import SCALARS
from substrait_agg.functions.scalars.forms import FAMILIES
from substrait_agg.functions.signatures.declarations import window_signatures
from substrait_agg.functions.windows import (
    MICROS_PER_DAY,
    WINDOWS_URN,
    duration_micros,
    duration_value,
    windows_per_row,
    windows_text,
)
from tests.conformance.type_texts import type_of as type_in_tests

WINDOWS = [name for name, row in SCALARS.items() if row.durations]


@cache
def content() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(windows_text())
    return found


def test_it_is_valid_by_the_published_schema() -> None:
    folder = files("substrait_extensions").joinpath("extensions")
    schema = yaml.safe_load(folder.joinpath("simple_extensions_schema.yaml").read_text("utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    assert [e.message for e in validator.iter_errors(content())] == []
    spoilt = {**content(), "scalar_functions": [{"name": "tumble"}]}
    assert list(validator.iter_errors(spoilt)), "the schema refuses something"


def test_it_has_our_urn_and_every_function() -> None:
    assert content()["urn"] == f"extension:{WINDOWS_URN}"
    assert [f["name"] for f in content()["scalar_functions"]] == [*WINDOWS]
    assert {s.urn for s in window_signatures()} == {WINDOWS_URN}


def test_types_of_arguments_and_results_are_read_as_those_of_the_standards_test_files() -> None:
    for signature in window_signatures():
        for text in (*(a.type for a in signature.arguments), signature.returns):
            plain = text.replace("P1", "6").replace("P2", "6")
            assert type_of(text) == type_in_tests(plain)


@pytest.mark.parametrize("signature", window_signatures(), ids=lambda s: s.signature)
def test_every_declaration_is_bound_as_it_says(signature: Any) -> None:
    support = support_of(signature, aggregate=False)
    assert support.supported, support.problems


def test_all_that_is_taken_is_declared() -> None:
    """Per number of arguments and type of the time; mixed kinds of intervals are taken, too."""
    declared = {s.signature for s in window_signatures()}
    short = {"timestamp": "pts", "timestamp_tz": "ptstz", "interval_day": "iday"}
    short["interval_compound"] = "icompound"
    for name in WINDOWS:
        for form, kind in product(SCALARS[name].overloads, sorted(FAMILIES["duration"])):
            words = [short[form.params[0]], *[short[kind]] * (len(form.params) - 1)]
            declared.discard(f"{name}:{'_'.join(words)}")
    assert declared == set()


@given(st.integers(-(2**60), 2**60))
def test_durations_keep_every_microsecond(micros: int) -> None:
    days, rest = duration_value(micros)
    assert duration_micros((days, rest)) == micros
    assert abs(rest) < MICROS_PER_DAY


def test_windows_per_row_are_the_most_there_can_be() -> None:
    for size, slide in product(range(1, 30), repeat=2):
        held = [sum(t - size < k * slide <= t for k in range(-60, 60)) for t in range(slide)]
        assert max(held) == windows_per_row(size, slide)
