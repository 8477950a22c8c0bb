"""Define the options of a run, once for the Python API, the command line and the run itself.

`RunOptions` is the table: each field has the name, type and default of an option. An option that
the command line has as well carries its help text and the form of its value. `substrait_agg.run`
documents the options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from substrait_agg.arguments import microseconds
from substrait_agg.errors import UsageError, checked_choice
from substrait_agg.functions.aggregates.accumulators import EARLY_RETRACTIONS, EarlyRetraction
from substrait_agg.problem_kinds import Mode

if TYPE_CHECKING:
    from substrait_agg.commit.log.retention import Retention
    from substrait_agg.operator.common.policy import EmitPolicy
    from substrait_agg.operator.common.watermarks import Ttl
    from substrait_agg.refresh.policies import RefreshPolicies


MOST_JOIN_ROWS = 100_000_000
LAST_PORT = 65_535


def _option(default: Any, help: str, metavar: str = "", **form: Any) -> Any:
    """Return a field that is also an option of the command line.

    Args:
        default: the default; MISSING if the option is required.
        help: the help text of the command line.
        metavar: the value in the help of the command line; ``NAME=VALUE`` for a mapping.
        form: ``choices``: all values of the command line; ``name``: its name there, if it differs; ``least``: its least value, 1 if it is not given.
    """
    return field(default=default, metadata={"help": help, "metavar": metavar, **form})


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run as the user gives them; the properties return them parsed.

    The fields are the keyword arguments of `substrait_agg.run`, which documents them, in the order
    of ``substrait-agg run --help``.

    Raises:
        UsageError: OPTION_INVALID.
    """

    checkpoint: str | Path = _option(  # noqa: RUF009 - a field
        MISSING,
        (
            "Folder, or URL such as s3://bucket/prefix, for state, offsets and versions. A run continues an existing "
            "checkpoint. Required, but for a project with a spark-pipeline.yml: there it is a folder in its storage."
        ),
        "DIR",
    )
    until: str = "done"
    latency: str | None = _option(
        None,
        "Target duration of a batch, such as 2s. Batches take as many bytes of files as stay below it, and at least one "
        "file per table. batch-files= in a source stays an upper limit.",
        "INTERVAL",
    )
    emit: str = _option(
        "batch",
        "When the changes of a group are emitted. batch: after every batch with rows of the group; watermark: when "
        "the watermark passes its event time; count:N: after N rows of the group; delay:5s: 5 s after its last "
        "row; end: at the end of the input. With several, separated by commas, the first one applies.",
        "SPEC",
    )
    watermark: Mapping[str, str] | None = _option(
        None,
        "The event time column of a table. SPEC is max-diff:5s or percentile:P:EVENTS:FREQUENCY, optionally "
        "followed by ,idle:1m or ,by:COLUMN. Rows of groups that the watermark has passed are late: they are "
        "dropped and counted.",
        "NAME.COLUMN=SPEC",
    )
    ttl: str | None = _option(
        None,
        "Delete the state of groups that had no rows for this long in event time, or by the clock without "
        "--watermark. 1h retracts their rows; 1h:keep leaves them in the view.",
        "INTERVAL",
    )
    outputs: Iterable[Any] = _option(
        (),
        "Repeatable; default batch-table. With several views, VIEW= says which one; without it, batch-table and "
        "batch-csv show all views, and changes-parquet and view-parquet use a subfolder per view. At the end of the run: batch-table, batch-csv. After every version: "
        "live-table, live-csv, stream-json, debezium-json (stdout or a file), changes-parquet=DIR, "
        "late-parquet=DIR (late rows), view-parquet=DIR, delta=PATH[?mode=view], "
        "postgres=SCHEMA.TABLE[?service=NAME] (a table kept equal to the view), spark=FORMAT:LOCATION[?key=value] "
        "(changes, appended by Spark). none: no output. A slow or failing output does not delay the run; delivery is retried, and the "
        "next run delivers missing versions.",
        "[VIEW=]KIND[=LOCATION]",
        name="output",
    )
    partitions: int | None = _option(
        None,
        "Number of state partitions, a power of two. Default: the number set by state rescale, else one per core.",
        "N",
    )
    keep_versions: int | None = _option(
        None,
        "Keep the state of the newest N versions, for view --version and state rollback; default 10.",
        "N",
    )
    keep_for: str | None = _option(
        None,
        "Also keep the state of versions that are younger than this, such as 12h or 7d.",
        "INTERVAL",
    )
    early_retraction: str = _option(
        "carry",
        "How to handle a retraction that comes before its insertion. carry: count it as a negative weight, which "
        "the view does not show; refuse: fail the batch; quarantine: store it until the insertion comes (view "
        "--quarantined). Fixed for a checkpoint.",
        choices=EARLY_RETRACTIONS,
    )
    max_join_rows: int = _option(
        MOST_JOIN_ROWS,
        "Stop a batch in which a join produces more than N rows; 0: no bound. Nothing of the batch is committed. The run "
        "can be continued with a larger bound.",
        "N",
        least=0,
    )
    checksum: bool = _option(
        False,
        "Store a checksum of all rows of each view in every version, which DuckDB, Spark and other SQL engines can "
        "compute again (docs/proof.md).",
    )
    metrics: str | Path | None = _option(  # noqa: RUF009 - a field
        None,
        "Write metrics after every version. If FILE ends in .prom: Prometheus text, replaced each time; else JSON "
        "lines, appended; - is stdout.",
        "FILE",
    )
    page: int | None = _option(
        None,
        "Show the run on a web page of this machine, http://127.0.0.1:PORT/: the first rows of each view, its versions "
        "and its outputs. 0: a free port. The address is printed on stderr.",
        "PORT",
        least=0,
    )
    accept_source_change: bool = _option(
        False,
        "Continue if a table has another location than before; all data of the new location counts as new rows. Of a "
        "static table whose content has changed, the difference counts.",
    )
    allow_files: str | Path | None = _option(  # noqa: RUF009 - a field
        None,
        "Let the plan read the files that it names itself (local_files), if they lie below this folder, also behind "
        "links. Without it, each such table needs a --source with its path or name.",
        "DIR",
    )
    refresh: str | Mapping[str, str] | RefreshPolicies = _option(  # noqa: RUF009 - a field
        "incremental",
        "How views follow their input. incremental: by its changes. incremental_strict: the same, and refuse a plan in "
        "which a changed row makes the run read many stored rows again. full: compute the view again from all rows in "
        "every batch, and emit the difference. auto: full or incremental, whichever the costs of past batches say is "
        "cheaper. VIEW=POLICY is for one of several views; separate several by commas.",
        "POLICY[,VIEW=POLICY]",
    )
    evolve: bool = _option(
        False,
        "Continue a checkpoint with a plan that has other measures or names. New measures are computed from the "
        "stored state, new columns of joins from the files read so far, or refused with a reason.",
    )
    mode: Mode = "lenient"
    master: str | None = _option(None, "Spark master; default: all cores of this machine.", "URL")
    conf: Mapping[str, str] | None = _option(None, "Spark configuration.", "KEY=VALUE")
    progress: Callable[[Any], None] | None = None
    spark: Any = None
    on_changes: Callable[[Any, int], None] | Mapping[str, Any] | None = None
    listener: Any = None
    spark_log: IO[bytes] | None = None

    def __post_init__(self) -> None:
        """Check all options that need a check."""
        _ = self.interval_seconds, self.retention, self.emit_policy, self.state_ttl, self.early
        _ = self.target_seconds, self.refresh_policies, self.most_join_rows
        _ = self.allowed_folder, self.page_port

    @cached_property
    def interval_seconds(self) -> float | None:
        """Return the interval between batches in seconds, 0 for none; None for a run that ends by itself."""
        if self.until == "done":
            return None
        interval = 0 if self.until == "0" else microseconds(self.until)
        if interval is None:
            message = f"{self.until!r} is neither done nor an interval"
            help = (
                "write an interval as 500ms, 5s, 1m or 1h; 0 for a batch as soon as there are rows"
            )
            raise UsageError("OPTION_INVALID", message, help=help, path="until")
        return interval / 1e6

    @cached_property
    def target_seconds(self) -> float | None:
        """Return the target duration of a batch in seconds; None without one."""
        if self.latency is None:
            return None
        target = microseconds(self.latency)
        if not target:
            message = f"{self.latency!r} is not a duration"
            help = "write a duration as 500ms, 5s, 1m or 1h"
            raise UsageError("OPTION_INVALID", message, help=help, path="latency")
        return target / 1e6

    @cached_property
    def retention(self) -> Retention:
        """Return which versions keep their state."""
        from substrait_agg.commit.log.retention import parse_retention

        return parse_retention(self.keep_versions, self.keep_for)

    @cached_property
    def emit_policy(self) -> EmitPolicy:
        """Return when groups are emitted."""
        from substrait_agg.operator.common.policy import parse_emit

        return parse_emit(self.emit)

    @cached_property
    def state_ttl(self) -> Ttl | None:
        """Return the time to live of groups, None for no limit."""
        from substrait_agg.operator.common.watermarks import parse_ttl

        return None if self.ttl is None else parse_ttl(self.ttl)

    @cached_property
    def early(self) -> EarlyRetraction:
        """Return what happens to a retraction that comes before its insertion."""
        return checked_choice(self.early_retraction, EARLY_RETRACTIONS, "early_retraction")

    @cached_property
    def most_join_rows(self) -> int:
        """Return how many rows a join may produce in a batch; 0 for any number."""
        if self.max_join_rows < 0:
            message = f"{self.max_join_rows} is not a number of rows"
            help = "give the most rows that a join may produce in a batch, or 0 for no bound"
            raise UsageError("OPTION_INVALID", message, help=help, path="max_join_rows")
        return self.max_join_rows

    @cached_property
    def page_port(self) -> int | None:
        """Return the port of the web page, 0 for a free one; None without a page."""
        if self.page is not None and not 0 <= self.page <= LAST_PORT:
            message = f"{self.page} is not a port"
            help = f"give a number up to {LAST_PORT}, or 0 for a free port"
            raise UsageError("OPTION_INVALID", message, help=help, path="page")
        return self.page

    @cached_property
    def refresh_policies(self) -> RefreshPolicies:
        """Return the refresh policy of each view."""
        from substrait_agg.refresh.policies import parse_refresh

        return parse_refresh(self.refresh)

    @cached_property
    def allowed_folder(self) -> Path | None:
        """Return the folder whose files a plan may read, without links; None for no folder."""
        if self.allow_files is None:
            return None
        folder = Path(self.allow_files).resolve()
        if not folder.is_dir():
            message = f"{str(self.allow_files)!r} is not a folder"
            help = "give the folder that has the files of the plan"
            raise UsageError("OPTION_INVALID", message, help=help, path="allow_files")
        return folder

    def with_declared(self, plans: object) -> RunOptions:
        """Return the options with the refresh policies that the statements of a pipeline declare."""
        return replace(self, refresh=self.refresh_policies.declared_by(plans))

    @cached_property
    def sinks(self) -> tuple[Any, ...]:
        """Return the outputs."""
        return tuple(self.outputs)
