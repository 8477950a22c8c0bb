"""substrait-agg functions: the catalogue as text, JSON and Markdown, and one function in full."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from substrait_agg.functions.aggregates.catalogue import AGGREGATE_NAMES, AGGREGATES, MAINTAINED
from substrait_agg.functions.listing.catalogue_json import SCALAR_RESULTS, phases, standard_scalars
from substrait_agg.functions.scalars.catalogue import SCALARS
from substrait_agg.functions.signatures.declarations import scalar_signatures, signatures
from substrait_agg.functions.signatures.derive import RESULT_RULES
from substrait_agg.plan.types import I64
from substrait_agg_cli.main import main
from tests.bind.build import aggregate, at, codes_of, measure, read


def call(*arguments: str, width: int = 100) -> Result:
    return CliRunner().invoke(main, ["functions", *arguments], env={"COLUMNS": str(width)})


def printed(*arguments: str, width: int = 100) -> str:
    result = call(*arguments, width=width)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def document(*arguments: str) -> Any:
    return json.loads(printed(*arguments, "--format", "json"))


# --- text ------------------------------------------------------------------------------------


def test_text_names_every_function_and_every_other_name() -> None:
    words = set(re.findall(r"[a-z_0-9]+", printed()))
    assert set(AGGREGATE_NAMES) | set(SCALARS) <= words


def test_kind_chooses_what_is_listed() -> None:
    aggregates, scalars = printed("--kind", "aggregate"), printed("--kind", "scalar")
    assert printed() == f"{aggregates}\n{scalars}"
    assert "string_agg" in aggregates
    assert "string_agg" not in scalars
    assert "regexp_string_split" in scalars


@pytest.mark.parametrize("width", [60, 80, 100, 120, 160, 250])
def test_text_stays_within_the_width(width: int) -> None:
    assert max(map(len, printed(width=width).splitlines())) <= width


def test_columns_are_aligned_and_narrow_terminals_get_blocks() -> None:
    wide, narrow = printed(width=120), printed(width=60)
    header = next(line for line in wide.splitlines() if line.startswith("function "))
    row = next(line for line in wide.splitlines() if line.startswith("mode "))
    assert row[header.index("DISTINCT") :].startswith("refused [")
    assert row[header.index("FILTER") :].strip() == "honoured"
    assert re.search(r"^function +mode\narguments +x: ", narrow, re.M)


def test_every_note_that_a_cell_refers_to_is_below_its_table() -> None:
    for table in re.split(r"\n(?=[A-Z][A-Z' 0-9]+\n\n)", printed("--kind", "aggregate", width=200)):
        notes = set(re.findall(r"^\[(\d+)\]", table, re.M))
        assert set(re.findall(r" \[(\d+)\]", table)) == notes, table[:40]


def test_refused_functions_have_their_reason() -> None:
    text = printed(width=200)
    refused = text[text.index("KNOWN AND REFUSED") :]
    for row in AGGREGATES.values():
        if row.kind is None:
            assert re.search(rf"\b{row.name}\b", refused)
            assert row.reason in refused


# --- one function ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAINTAINED)
def test_details_hold_what_the_row_says(name: str) -> None:
    row, text = AGGREGATES[name], printed(name, width=400)
    for part in (row.distinct, row.order_by, row.filter):
        assert f"{part.handling}: {part.reason}" in text if part.reason else part.handling in text
    assert all(str(parameter) in text for parameter in row.parameters)
    assert all(option in text for option in row.options)
    for declared in (s for s in signatures() if s.name == name):
        assert re.search(rf"^{re.escape(declared.signature)} .*:{declared.urn}$", text, re.M)


def test_details_of_a_declaration() -> None:
    text = printed("std_dev")
    block = text[text.index("std_dev:fp64") :].split("\n\n")[0]
    assert re.search(r"returns +fp64\? \(DECLARED_OUTPUT\)", block)
    assert re.search(r"decomposable +NONE", block)
    assert re.search(r"ordered +no", block)
    assert re.search(r"deprecated +since 0.88.0", block)
    assert re.search(r"distribution +SAMPLE, POPULATION", block)


def test_an_alias_is_told_from_the_function_and_says_what_it_decides() -> None:
    assert re.search(r"asked for +var_pop \(DISTRIBUTION POPULATION\)", printed("var_pop"))
    assert re.search(r"asked for +collect_set \(Spark, DISTINCT\)", printed("COLLECT_SET"))
    assert "asked for" not in printed("variance")


def test_details_of_scalar_functions_say_which_declarations_are_refused() -> None:
    text = printed("round_temporal", width=200)
    assert len(standard_scalars("round_temporal")) == text.count("extension:io.substrait:")
    blocks = {b.split()[0]: b for b in text.split("\n\n")}
    assert "refused" in blocks["round_temporal:ptstz_req_req_i64_str_ptstz"]
    assert "refused" not in blocks["round_temporal:date_req_req_i64_date"]


def test_all_details_can_be_printed() -> None:
    """The details of every function fit the layout, also in a narrow terminal."""
    for name in (*AGGREGATES, *SCALARS):
        assert printed(name, width=50).startswith("function")


@pytest.mark.parametrize(
    ("name", "near"),
    [("strng_agg", "string_agg"), ("Medain", "median"), ("substrng", "substring")],
)
def test_an_unknown_name_is_a_wrong_call_with_names_that_are_near(name: str, near: str) -> None:
    for more in ((), ("--format", "json")):
        result = call(name, *more)
        assert (result.exit_code, result.stdout) == (2, "")
        error, advice = result.stderr.splitlines()
        assert error == f"error[FUNCTION_UNKNOWN]: there is no function {name}"
        assert advice.startswith("help: did you mean ")
        assert near in advice


def test_names_like_nothing_and_window_functions_are_refused_too() -> None:
    nothing, window = call("xyzzy"), call("row_number")
    assert (nothing.exit_code, window.exit_code) == (2, 2)
    assert "help: substrait-agg functions lists all" in nothing.stderr
    assert "window function" in window.stderr


@pytest.mark.parametrize(
    "arguments",
    [("sum", "--format", "dialect"), ("sum", "--format", "markdown"), ("sum", "--kind", "scalar"),
     ("--kind", "scalar", "--format", "dialect")],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(arguments: tuple[str, ...]) -> None:
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error[OPTION_CONFLICT]: ")


# --- JSON ------------------------------------------------------------------------------------


def test_json_is_sorted_and_holds_every_row() -> None:
    text = printed("--format", "json")
    found = json.loads(text)
    assert text == json.dumps(found, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    assert [f["name"] for f in found["aggregate_functions"]] == sorted(AGGREGATES)
    assert [f["name"] for f in found["scalar_functions"]] == sorted(SCALARS)
    assert [f["name"] for f in found["aggregate_functions"] if f["maintained"]] == sorted(
        MAINTAINED
    )


def test_json_is_the_catalogue() -> None:
    for entry in document("--kind", "aggregate")["aggregate_functions"]:
        row = AGGREGATES[entry["name"]]
        if row.kind is None:
            assert entry["reason"] == row.reason
            continue
        assert entry["state"] == row.state
        assert [a["name"] for a in entry["aliases"]] == sorted(a.name for a in row.aliases)
        for key, part in (
            ("distinct", row.distinct), ("order_by", row.order_by), ("filter", row.filter),
        ):  # fmt: skip
            assert entry[key]["handling"] == part.handling
            assert entry[key].get("reason", "") == part.reason
        for name, option in row.options.items():
            said = entry["options"][name]
            assert said["default"] == option.accepted[0]
            assert {v: p["handling"] for v, p in said["values"].items()} == {
                v: p.handling for v, p in option.values.items()
            }


def test_json_lists_all_declarations_of_the_standard() -> None:
    found = document()
    listed = [s for f in found["aggregate_functions"] for s in f["standard"]]
    assert len(listed) == len(signatures())
    scalars = {(s["urn"], s["signature"]) for f in found["scalar_functions"] for s in f["standard"]}
    assert len(scalars) > 300
    assert len(scalar_signatures()) == 421


def test_json_of_one_function_is_its_entry_in_the_whole() -> None:
    whole = document()
    entries = {f["name"]: f for f in (*whole["aggregate_functions"], *whole["scalar_functions"])}
    assert document("stddev") == entries["std_dev"]
    assert document("pow") == entries["power"]


def test_result_words_are_all_described() -> None:
    used = {overload.result for row in SCALARS.values() for overload in row.overloads}
    by_value = {word for word in used if word.startswith("digits:")}
    assert set(SCALAR_RESULTS) == set(RESULT_RULES) | by_value
    assert used <= set(SCALAR_RESULTS)


@pytest.mark.parametrize("name", ["sum", "bit_or"])
def test_phases_are_what_validation_says_of_them(name: str) -> None:
    for phase, part in phases(AGGREGATES[name]).items():
        given = measure(name, at(0), output=I64, phase=phase.lower())
        codes = codes_of(aggregate(read({"x": I64}), (), (given,)), "m")
        said = {"refused": {"PHASE_NOT_SUPPORTED": "error"},
                "no-op": {"PHASE_UNSPECIFIED": "warning"}, "honoured": {}}[part.handling]  # fmt: skip
        assert {c: level for c, level in codes.items() if c.startswith("PHASE")} == said, phase


# --- other formats ---------------------------------------------------------------------------


def test_markdown_has_a_well_formed_table_per_section() -> None:
    text = printed("--format", "markdown")
    tables = re.findall(r"(?:^\|.*\n?)+", text, re.M)
    assert len(tables) == text.count("### ")
    for table in tables:
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.strip().splitlines()}
        assert len(widths) == 1, table[:80]
    assert printed("--format", "markdown", width=40) == text


def test_dialect_is_yaml_on_stdout() -> None:
    content = yaml.safe_load(printed("--format", "dialect"))
    assert content["name"] == "substrait-agg"
    assert content["supported_aggregate_functions"]


def test_it_loads_neither_spark_nor_arrow() -> None:
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from substrait_agg_cli.main import main\n"
        "assert CliRunner().invoke(main, ['functions', 'sum']).exit_code == 0\n"
        "heavy = {'pyspark', 'py4j', 'pyarrow', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    paths = {"PYTHONPATH": ":".join(p for p in sys.path if p)}
    subprocess.run([sys.executable, "-c", code], check=True, env=paths, timeout=60)


def test_a_refused_function_of_the_standard_is_told_with_its_reason() -> None:
    made = CliRunner().invoke(main, ["functions", "title"])
    assert made.exit_code == 2
    assert "title is not supported: the standard does not define" in made.stderr
    assert document()["refused_scalar_functions"]["title"] in made.stderr
