"""Every scalar function and signature that the standard's files declare: supported, or refused as not supported with a reason."""

from __future__ import annotations

from collections import Counter

import pytest

from substrait_agg.bind.plan.dialect import support_of
from substrait_agg.functions.scalars.catalogue import SCALAR_NAMES, SCALARS
from substrait_agg.functions.scalars.refused import REFUSED_PARTS, REFUSED_SCALARS, refusal
from substrait_agg.functions.signatures.declarations import Signature, scalar_signatures
from substrait_agg.spark.functions.table import BUILDERS, HIGHER_ORDER

STANDARD = scalar_signatures()
NAMES = {s.name.lower() for s in STANDARD}
REFUSED = "SCALAR_FUNCTION_NOT_SUPPORTED"


def named(signature: Signature) -> str:
    return f"{signature.urn}/{signature.signature}"


def test_the_files_are_read() -> None:
    assert len(STANDARD) > 400
    assert {"add", "title", "point", "logb", "index_in"} <= NAMES


@pytest.mark.parametrize("signature", STANDARD, ids=named)
def test_a_declaration_is_supported_or_refused_with_a_reason(signature: Signature) -> None:
    """No third outcome: no declared function is unknown, and none is refused for its arguments."""
    support = support_of(signature, aggregate=False)
    name = signature.name.lower()
    if support.supported:
        assert SCALAR_NAMES[name] in BUILDERS | HIGHER_ORDER
        assert name not in REFUSED_SCALARS
        return
    problem = support.problems[0]
    reason = refusal(name, (a.type.partition("<")[0] for a in signature.arguments))
    assert problem.code == REFUSED
    assert reason
    assert reason in problem.message


def test_every_refusal_is_of_a_function_that_the_standard_declares() -> None:
    refused = set(REFUSED_SCALARS)
    assert refused <= NAMES
    assert not refused & set(SCALAR_NAMES)
    assert {name for name, _ in REFUSED_PARTS} <= NAMES & set(SCALAR_NAMES)


def test_every_refused_word_is_declared() -> None:
    declared = {
        (s.name, part)
        for s in STANDARD
        for a in s.arguments
        for part in (a.words or (a.type.partition("<")[0],))
    }
    assert set(REFUSED_PARTS) <= declared


def test_most_of_the_standard_is_supported() -> None:
    """The refused functions are geometries, and functions that the standard leaves open."""
    outcomes = Counter(support_of(s, aggregate=False).supported for s in STANDARD)
    assert outcomes[False] <= 0.08 * len(STANDARD)


@pytest.mark.parametrize(
    ("name", "operands", "text"),
    [
        ("and", "abc", "a AND b AND c"),
        ("and", "a", ""),
        ("like", "ab", "a LIKE b"),
        ("like", "abc", "a LIKE b ESCAPE c"),
        ("is_null", "a", "a IS NULL"),
        ("not", "a", "NOT a"),
        ("upper", "a", ""),
    ],
)
def test_a_call_with_a_symbol_is_written_as_in_sql(name: str, operands: str, text: str) -> None:
    assert SCALARS[name].write(operands) == text
