"""The dialect: valid by the published schema, and what binding does."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
import yaml

from substrait_agg.bind.context import BindContext, is_keyable
from substrait_agg.bind.plan.dialect import dialect, support_of, type_of
from substrait_agg.bind.profiles import STANDARD
from substrait_agg.functions.aggregates.catalogue import AGGREGATES
from substrait_agg.functions.scalars import catalogue
from substrait_agg.functions.scalars.forms import WORDS
from substrait_agg.functions.signatures.declarations import Signature, scalar_signatures, signatures
from substrait_agg.functions.windows import WINDOWS_URN, windows_text
from substrait_agg.plan.decoding import expressions as expression_readers
from substrait_agg.plan.decoding import relations as relation_readers
from substrait_agg.plan.types import Type
from substrait_agg.problems import Problems


@cache
def made() -> dict[str, Any]:
    return dialect("1.2.3")


def named(section: str, name: str) -> dict[str, dict[str, Any]]:
    """The entries of a function by their extension."""
    return {e["source"]: e for e in made()[section] if e["name"] == name}


def scalar(signature: str, urn: str) -> Signature:
    (found,) = [s for s in scalar_signatures() if (s.signature, s.urn) == (signature, urn)]
    return found


def test_it_is_valid_by_the_published_schema_also_once_written() -> None:
    folder = files("substrait_extensions").joinpath("dialects")
    schema = yaml.safe_load(folder.joinpath("dialect_schema.yaml").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    written = yaml.safe_load(yaml.safe_dump(made()))
    assert written == made()
    assert [e.message for e in validator.iter_errors(written)] == []
    spoilt = {**written, "supported_relations": ["EVERYTHING"]}
    assert list(validator.iter_errors(spoilt)), "the schema refuses something"


def test_every_standard_aggregate_implementation_is_listed() -> None:
    listed = {
        (e["source"].removeprefix("functions_"), f"{e['name']}:{impl}")
        for e in made()["supported_aggregate_functions"]
        for impl in e["supported_impls"]
    }
    assert listed == {(s.urn.removeprefix("functions_"), s.signature) for s in signatures()}


def test_scalar_implementations_are_those_of_the_tables() -> None:
    assert named("supported_scalar_functions", "lt")["comparison"]["supported_impls"] == ["any_any"]
    subtract = named("supported_scalar_functions", "subtract")
    assert "fp64_fp64" in subtract["arithmetic"]["supported_impls"]
    assert "date_iyear" in subtract["datetime"]["supported_impls"]
    transform = named("supported_scalar_functions", "transform")
    assert transform["list"]["supported_impls"] == ["list_func"]
    assert not named("supported_scalar_functions", "point"), "a type that is not read"
    assert named("supported_scalar_functions", "coalesce")["comparison"]["variadic"] == {"min": 2}
    assert named("supported_scalar_functions", "or")["boolean"]["variadic"] == {"min": 1}


def test_a_function_that_leaves_the_table_leaves_the_dialect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = scalar("sqrt:fp64", "functions_arithmetic")
    assert support_of(root, aggregate=False).supported
    monkeypatch.delitem(catalogue.SCALAR_NAMES, "sqrt")
    refused = support_of(root, aggregate=False)
    assert [p.code for p in refused.problems] == ["SCALAR_FUNCTION_UNKNOWN"]


def test_the_first_value_of_an_option_is_what_holds_when_it_is_not_set() -> None:
    options = named("supported_scalar_functions", "divide")["arithmetic"]["metadata"]["options"]
    found = {(o["name"], o["impls"][0]): o["values"] for o in options}
    assert found["on_division_by_zero", "fp32_fp32"] == ["IEEE", "NULL"]
    assert found["on_division_by_zero", "i8_i8"] == ["ERROR", "NULL"]
    (overflow,) = named("supported_aggregate_functions", "sum")["arithmetic_decimal"]["metadata"][
        "options"
    ]
    assert overflow["values"][0] == "ERROR"
    assert set(overflow["values"]) == {"ERROR", "SATURATE", "SILENT"}


def test_words_of_enumerations_that_are_refused_are_left_out() -> None:
    extract = named("supported_scalar_functions", "extract")["datetime"]["metadata"]["words"]
    words = {w for entry in extract if entry["name"] == "component" for w in entry["values"]}
    assert {"YEAR", "UNIX_TIME"} <= words <= WORDS["zoned_component"]
    leap = named("supported_scalar_functions", "extract_boolean")["datetime"]["metadata"]["words"]
    words = {w for entry in leap for w in entry["values"]}
    assert words == {"IS_LEAP_YEAR"}
    declared = scalar("extract_boolean:req_ptstz_str", "functions_datetime").arguments[0].words
    assert not set(declared) <= words


def test_relations_and_expressions_are_those_that_the_decoder_reads() -> None:
    named = {"consistent_partition_window": "window"}
    relations = {e["relation"].lower() for e in made()["supported_relations"]}
    relations = {named.get(name, name) for name in relations}
    assert relations == set(relation_readers._READERS)
    expressions = {e["expression"].lower() for e in made()["supported_expressions"]}
    read = {kind.removesuffix("_expression") for kind in expression_readers._READERS}
    assert expressions == read - {"enum"}


def test_types_are_those_that_binding_takes() -> None:
    kinds = {"FIXED_CHAR": "fixedchar", "FIXED_BINARY": "fixedbinary"}
    for entry in made()["supported_types"]:
        name = entry.get("name") or kinds.get(entry["type"], entry["type"].lower())
        digits = (entry["max_precision"],) if "max_precision" in entry else ()
        context = BindContext(Problems("strict"), STANDARD)
        # A struct without fields is no column.
        type_ = Type(name, params=digits, children=(Type("i64"),) if name == "struct" else ())
        assert context.check_type(type_, ""), name
        assert entry["system_metadata"]["supported_as_column"] == is_keyable(type_)
        if digits and name != "decimal":
            finer = Type(name, params=(digits[0] + 1,))
            assert (
                context.limit_time_digits(finer, "").params == digits or name == "interval_compound"
            )
    named_types = {e["type"] for e in made()["supported_types"]}
    assert not named_types & {"FUNC", "UNBOUND"}
    assert {e["name"] for e in made()["supported_types"] if "name" in e} == {
        "u8", "u16", "u32", "u64",
    }  # fmt: skip


def test_sources_are_declared_dependencies_with_the_urns_of_their_files() -> None:
    content = made()
    functions = (*content["supported_scalar_functions"], *content["supported_aggregate_functions"])
    types = content["supported_types"]
    assert {e["source"] for e in (*functions, *types) if "source" in e} == set(
        content["dependencies"]
    )
    folder = files("substrait_extensions").joinpath("extensions")
    for urn in content["dependencies"].values():
        if urn == f"extension:{WINDOWS_URN}":
            text = windows_text()
        else:
            text = folder.joinpath(f"{urn.rpartition(':')[2]}.yaml").read_text(encoding="utf-8")
        assert f"\nurn: {urn}\n" in text


def test_metadata_of_measures_is_the_catalogue() -> None:
    for entry in made()["supported_aggregate_functions"]:
        row = AGGREGATES[entry["name"]]
        assert entry["metadata"]["distinct"]["handling"] == row.distinct.handling
        assert entry["metadata"]["order_by"]["handling"] == row.order_by.handling
        assert entry["metadata"]["state"] == row.state
    assert made()["metadata"]["version"] == "1.2.3"


@pytest.mark.parametrize(
    ("expression", "type_"),
    [("DECIMAL?<38,S>", Type("decimal", True, (38, 2))), ("any1", Type("i64", False)),
     ("u!u16?", Type("u16")), ("precision_timestamp<P>", Type("precision_timestamp", False, (6,))),
     ("list<any1>", Type("list", False, children=(Type("i64", False),))),
     ("u!geometry", Type("user_defined", False, name="geometry")),
     ("boolean?", Type("bool")), ("init = P1 + 1\nDECIMAL<init, S1>", None)],
)  # fmt: skip
def test_type_expressions_are_read(expression: str, type_: Type | None) -> None:
    """A misread type would make an implementation look refused, or a wrong one supported."""
    assert type_of(expression) == type_
