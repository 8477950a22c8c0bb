"""The reader of the standard's declarations."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from substrait_agg.functions.signatures.declarations import Signature, declarations, signatures

ROOT = Path(__file__).parents[2]


def one(urn: str, signature: str) -> Signature:
    (found,) = [s for s in signatures() if s.urn == urn and s.signature == signature]
    return found


def test_an_implementation_is_read_with_all_it_says() -> None:
    found = one("functions_arithmetic", "quantile:req_req_i64_any")
    assert [a.name for a in found.arguments] == ["boundaries", "precision", "n", "distribution"]
    assert found.arguments[0].words == ("NEITHER", "MINIMUM", "MAXIMUM", "BOTH")
    assert [a.constant for a in found.arguments] == [False, False, True, False]
    assert found.nullability == "DECLARED_OUTPUT"
    assert found.returns == "LIST?<any1>"
    assert found.ordered
    assert found.decomposable == "NONE"
    assert set(found.options) == {"rounding"}


def test_partial_results_and_deprecation_are_read() -> None:
    decimals = one("functions_arithmetic_decimal", "avg:dec")
    assert decimals.intermediate == "STRUCT<DECIMAL<38,S>,i64>"
    assert decimals.decomposable == "MANY"
    assert one("functions_arithmetic", "std_dev:fp64").deprecated == "0.88.0"
    assert one("functions_arithmetic", "std_dev:req_fp64").deprecated == ""


@pytest.mark.parametrize(
    ("urn", "signature"),
    [("functions_aggregate_generic", "count:"), ("functions_datetime", "min:ptstz"),
     ("functions_datetime", "max:iyear"), ("functions_boolean", "bool_and:bool"),
     ("unsigned_integers", "sum:u!u16"), ("functions_string", "string_agg:str_str")],
)  # fmt: skip
def test_compound_names_are_the_standards(urn: str, signature: str) -> None:
    assert one(urn, signature).name == signature.partition(":")[0]


def test_nullability_is_mirror_where_the_file_says_nothing() -> None:
    assert one("functions_string", "string_agg:str_str").nullability == "MIRROR"


def test_nothing_is_read_until_somebody_asks() -> None:
    """A plan that declares bare names must not pay for reading the extension files."""
    code = (
        "import sys, substrait_agg.bind, substrait_agg.functions.signatures.declarations as s\n"
        "assert 'yaml' not in sys.modules\n"
        "assert len(s.signatures()) == 98 and 'yaml' in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=60)


def test_one_extension_is_read_at_a_time() -> None:
    """A URN in a plan makes the program read only its file, and an unknown name reads no file."""
    boolean = declarations("functions_boolean", "aggregate_functions")
    assert {name: [s.signature for s in found] for name, found in boolean.items()} == {
        "bool_and": ["bool_and:bool"],
        "bool_or": ["bool_or:bool"],
    }
    assert "rank" in declarations("functions_arithmetic", "window_functions")
    for urn in ("functions_nothing", "../extensions/functions_boolean", "simple_extensions_schema"):
        assert declarations(urn, "scalar_functions") == {}


def test_deprecated_declarations_say_what_takes_their_place() -> None:
    old = [s for s in signatures() if s.deprecated]
    assert {s.name for s in old} == {"std_dev", "variance"}
    assert all("enum argument" in s.instead for s in old)
