"""The report of a validation and its output formats."""

from __future__ import annotations

from collections.abc import Iterable

from substrait_agg.report.places.plan_problems import PlanProblems, json_document


class Report(PlanProblems):
    """The problems of one plan, with a method per output format."""

    def to_json(self) -> str:
        """Return the report as ``substrait-agg validate --format json`` writes it."""
        return reports_json((self,))

    def to_sarif(self) -> str:
        """Return the report as a SARIF 2.1.0 log, as ``substrait-agg validate --format sarif`` writes it."""
        from substrait_agg.report.sarif import reports_sarif  # noqa: PLC0415 - imported only if needed

        return reports_sarif((self,))

    def to_html(self) -> str:
        """Return the report as one HTML page, as ``substrait-agg validate --format html`` writes it."""
        from substrait_agg.report.html.report import reports_html  # noqa: PLC0415 - the same

        return reports_html((self,))


def reports_json(reports: Iterable[Report], *, complete: bool = True) -> str:
    """Return several reports as one JSON document: ``{"valid": bool, "plans": [...]}``.

    Args:
        reports: reports of all plans.
        complete: whether every plan could be read; the document is not valid otherwise.
    """
    plans = tuple(reports)
    valid = complete and all(r.ok for r in plans)
    document = {"valid": valid, "plans": [r.as_dict() for r in plans]}
    return json_document(document)
