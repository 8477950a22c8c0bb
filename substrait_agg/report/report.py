"""The report of validation and the forms that it is written in."""

from __future__ import annotations

from collections.abc import Iterable

from substrait_agg.report.plan_problems import PlanProblems, json_document


class Report(PlanProblems):
    """What validation found in one plan, with a method per form of report."""

    def to_json(self) -> str:
        """Write the report in the format of ``substrait-agg validate --format json``."""
        return reports_json((self,))

    def to_sarif(self) -> str:
        """Write the report as a SARIF 2.1.0 log, as ``substrait-agg validate --format sarif`` writes it."""
        from substrait_agg.report.sarif import reports_sarif  # noqa: PLC0415 - only who asks for it waits for it

        return reports_sarif((self,))

    def to_html(self) -> str:
        """Write the report as one HTML page, as ``substrait-agg validate --format html`` writes it."""
        from substrait_agg.report.html import reports_html  # noqa: PLC0415 - the same

        return reports_html((self,))


def reports_json(reports: Iterable[Report], *, complete: bool = True) -> str:
    """Several reports as one JSON document: ``{"valid": bool, "plans": [...]}``.

    Args:
        reports: of all plans.
        complete: whether every plan could be read; what could not be is not valid.
    """
    found = tuple(reports)
    valid = complete and all(r.ok for r in found)
    document = {"valid": valid, "plans": [r.as_dict() for r in found]}
    return json_document(document)
