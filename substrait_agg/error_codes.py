"""The table of errors that are not about a plan: code, what it says, what to do.

An exception of `substrait_agg.errors` carries one of these codes, or those of a plan's problems (`problem_kinds`). The
command shows them the same way; what it prints besides exceptions is here as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

Origin = OneOf["call", "source", "rows", "output", "checkpoint", "run", "command"]

ORIGINS: dict[Origin, str] = {
    "call": "What was asked for",
    "source": "Sources",
    "rows": "Rows and values, while a batch is computed",
    "output": "Outputs",
    "checkpoint": "Checkpoints",
    "run": "Spark and the run",
    "command": "The command line and the demo",
}
"""Where an error comes from -> its heading."""


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """An error that is not about a plan.

    Attributes:
        origin: where it comes from.
        code: stable word, such as ``SOURCE_MISSING``.
        meaning: what has happened.
        help: what to do.
    """

    origin: Origin
    code: str
    meaning: str
    help: str


def _of(origin: Origin, *rows: tuple[str, str, str]) -> tuple[ErrorCode, ...]:
    return tuple(ErrorCode(origin, *row) for row in rows)


_ALL: tuple[ErrorCode, ...] = (
    *_of(
        "call",
        ("FILE_NOT_FOUND", "there is no file or folder at this path", "correct the path"),
        ("FILE_NOT_READABLE", "the file cannot be read", "check what it is, and its permissions"),
        ("NOT_A_FOLDER", "a checkpoint is a folder, this is a file", "give the folder that run was given as --checkpoint"),
        ("NO_PLAN_IN_FOLDER", "no file in this folder has the suffix of a plan and holds one", "name the files themselves, or another folder"),
        ("PLAN_SOURCE", "a plan was given as an object of a type that cannot hold one", "give bytes, JSON text, a path or a Plan message"),
        ("OPTION_INVALID", "an argument or option has a value that it cannot have", "use one of the values in the message"),
        ("WATERMARK_COLUMN", "a watermark is given for a column that the plan's tables do not have, or that holds no time", "name TABLE.COLUMN with timestamps or dates"),
        ("EVENT_TIME_MISSING", "values are to be emitted by watermark and no grouping key tells event time", "give the watermark of a column that is a grouping key, or that a window is made of"),
        ("EMIT_TOGETHER", "rows of the view are to wait, and they are those of a fetch: a row comes where another one goes", "give --emit batch, or aggregate below the fetch: then the groups of the aggregate wait"),
        ("TTL_MEANINGLESS", "no groups of the plan could be forgotten", "leave out --ttl"),
        ("OPTION_CONFLICT", "options exclude each other", "leave one of them out"),
        ("PARTITIONS_INVALID", "the number of state partitions is no power of two, or too large", "take 1, 2, 4, 8, ..."),
        ("OPERATOR_UNKNOWN", "the plan of the checkpoint has no operator of this number", "see what substrait-agg state ls lists"),
        ("TREE_UNKNOWN", "an operator has no tree of this name", "name one of those in the message"),
        ("KEY_INVALID", "a key of a group is no JSON, or does not fit the key columns", "write it as json outputs write the columns"),
        ("FUNCTION_UNKNOWN", "no function has this name", "see what substrait-agg functions lists"),
        ("CODE_UNKNOWN", "no problem and no error has this code", "see what substrait-agg problems lists"),
    ),
    *_of(
        "source",
        ("SPEC_EMPTY", "a source names no location", "write [FORMAT:]LOCATION[?key=value&...]"),
        ("SPEC_FORMAT_MISSING", "a source has no format, and its suffix names none", "put the format in front, such as parquet:PATH"),
        ("SPEC_OPTION_BAD", "an option of a source has not the form key=value, or a value it cannot have", "write ?key=value&key=value"),
        ("SPEC_OPTION_TWICE", "an option of a source is given twice", "give it once"),
        ("SPEC_OPTION_UNKNOWN", "a CSV, JSON or Parquet source has an option that there is none of", "write it as in docs/formats.md; the message names the nearest one"),
        ("SPEC_CHANGE_CONFLICT", "a source says more than once how rows tell inserts from deletes", "give one of weight=, op= and changes:"),
        ("KEY_COLUMN_UNKNOWN", "key= or order= names a column that the plan does not declare for the table", "name columns of the table in the plan; it need not use them"),
        ("ORDER_UNKNOWN", "a source with key= does not say which of two rows of a key is the newer one", "add order=COLUMN, or batch-files=1 for files that are to be read one after the other"),
        ("TABLE_READS_DIFFER", "the plan declares a column of a table in several ways, and its source has key=", "declare the table in the same way wherever the plan reads it"),
        ("ENCODING_MISSING", "change events write values in a form that they do not tell", "add times= or decimals= to the source"),
        ("ENCODING_NOT_SUPPORTED", "a column has a type that is not read from change events", "flatten the events and give op=COLUMN"),
        ("SOURCE_MISSING", "a table of the plan has no source", "add --source TABLE=SPEC"),
        ("SOURCE_UNKNOWN", "a source is given for a table that the plan does not read", "leave it out, or name it as the plan does"),
        ("SOURCE_AMBIGUOUS", "a source could be for several tables, or several sources for one", "name tables exactly as the plan does"),
        ("SOURCE_NOT_FOUND", "there is nothing at the source's location", "check the path; a folder must exist before it is filled"),
        ("SOURCE_EMPTY", "the source has no file yet, so its columns are not known", "start when the first file is there"),
        ("SOURCE_UNREADABLE", "Spark cannot open the source", "check location, format and options; --debug shows Spark's log"),
        ("SOURCE_TYPES_UNKNOWN", "the plan gives no column types for a table, and its source has none that a plan could have", "give a source with types, such as Parquet or a DataFrame, or write the types into the plan"),
        ("SOURCE_FILE_GONE", "a file of the batch that is computed was removed", "put it back; nothing of the batch was committed"),
        ("CSV_HEADER_MISSING", "the first line of a CSV file names no column that the plan reads", "write the column names in the first line of every file, or add ?header=false"),
        ("CSV_BY_POSITION", "a warning: a CSV source has no header, and its columns are taken by position", "check the columns in the message; with a header they are taken by name"),
        ("COLUMN_MISSING", "the source lacks a column of the plan", "rename or add the column at the source"),
        ("COLUMN_AMBIGUOUS", "several columns of the source differ from the plan's by case alone", "give one of them exactly the plan's name"),
        ("COLUMN_TYPE_MISMATCH", "a column has a type in the source that does not fit the plan's", "convert it at the source, or plan for the source's types"),
    ),
    *_of(
        "rows",
        ("NULL_IN_REQUIRED_COLUMN", "a row has a null where the plan declares a required column", "correct the row, or declare the column nullable"),
        ("ROW_UNREADABLE", "a row of CSV or JSON cannot be parsed, or a value in it is none of its column's type", "correct the row, or declare another type"),
        ("VALUE_OUT_OF_RANGE", "a value of a source does not fit the plan's type", "correct the value, or declare a wider type"),
        ("WEIGHT_IS_NULL", "a row has no weight", "give every row one"),
        ("OPERATION_UNKNOWN", "the op= column of a row holds an unknown word", "write one of the words in the message"),
        ("ENVELOPE_INVALID", "a change event is no JSON, or a value in it does not fit its column", "correct the event"),
        ("ROW_BEFORE_MISSING", "an update or delete event does not say what the row was", "name the primary key in the source (key=COLUMN), or have the database write whole rows (PostgreSQL: REPLICA IDENTITY FULL)"),
        ("ROW_AFTER_MISSING", "a change event that brings a row has none", "correct the event"),
        ("KEY_IS_NULL", "a row of a source with key= has a null in its key", "correct the row, or name other key columns"),
        ("ORDER_IS_NULL", "a row of a source with order= has no value there, or none that it can be ordered by", "correct the row, or order by something that every row has"),
        ("VALUE_UNAVAILABLE", "an update event leaves out a large value that did not change, and no event before it is known to have told it", "leave order= out, begin with a snapshot, or have the database write whole rows (PostgreSQL: REPLICA IDENTITY FULL)"),
        ("WEIGHT_OVERFLOW", "the weights of a value or of a group add up to more than a state can hold", "check the weight column of the source"),
        ("EARLY_RETRACTION", "rows were deleted that had not been inserted, and the run refuses that", "correct the source, or begin a checkpoint with --early-retraction carry or quarantine"),
        ("WATERMARK_PARTITIONS", "the column that tells partitions of a source apart, for its watermark, has more than 10,000 values", "name a column with fewer values behind by:, or leave it out"),
        ("CAST_INVALID", "a cast of the plan fails for a value", "correct the value, or let the cast return null on failure"),
        ("OVERFLOW", "a function's result does not fit its type", "correct the value, or declare a wider type in the plan"),
        ("DOMAIN_ERROR", "a function is not defined for a value", "correct the value, or filter it out in the plan"),
        ("DECIMAL_TOO_WIDE", "the divisor of a decimal division has more than 37 digits", "cast it to fewer digits in the plan"),
        ("RESULT_OVERFLOW", "a measure's value does not fit its type", "declare a wider output type, or the option overflow with SATURATE or SILENT"),
        ("RESULT_TOO_LARGE", "the lists or texts of a measure are too long to be written", "filter what it collects, or group it finer"),
        ("TOTAL_OVERFLOW", "the totals of a measure of your own have too many digits", "keep fewer digits behind the point in its class"),
        ("SURROGATE_KEYS_EXHAUSTED", "a batch needs more surrogate keys than there are", "use smaller batches, or begin a new checkpoint"),
    ),
    *_of(
        "output",
        ("OUTPUT_EXISTS", "the output's location holds something that this checkpoint did not write", "remove it, or give another location"),
        ("OUTPUT_NOT_A_FILE", "the output needs a file, this is a folder", "give the path of a file"),
        ("OUTPUT_NOT_A_FOLDER", "the output needs a folder, this is a file", "give the path of a folder"),
        ("OUTPUT_DAMAGED", "the output is shorter than what was written to it", "put the file back as it was, or give another location"),
        ("OUTPUT_RECORD_DAMAGED", "the record of how far an output was written is damaged", "remove it together with the output; both are written anew"),
        ("OUTPUT_OF_OTHER_PLAN", "the output has had versions of the plan before --evolve, and cannot take other columns", "give a new location, or a new name"),
        ("OUTPUT_AHEAD", "an output has had versions that the checkpoint does not have: it is an older copy, or its newest versions are missing", "restore the newest copy of the whole folder, or remove the record together with the output"),
        ("OUTPUT_FAILING", "a warning: an output could not take a version; it is tried again, and everything else goes on", "see the reason in the message"),
        ("OUTPUT_NOT_DELIVERED", "the run has ended, and an output has not had every version; all of them are committed", "run again with the same arguments: delivery goes on where it stood"),
        ("OUTPUT_FORMAT_UNKNOWN", "Spark does not know the format of an output", "correct the name, or add the package that has it"),
        ("OUTPUT_NOT_WRITTEN", "Spark could not write a version to an output", "correct the target; delivery goes on from there"),
        ("OUTPUT_BUSY", "a run of this process was stopped while an output was being written, which is still going on", "wait, or go on in a new process"),
        ("METRICS_NOT_WRITABLE", "the file of --metrics cannot be written", "give the path of a file in a folder that exists"),
        ("METRICS_NOT_WRITTEN", "a warning: the metrics of a version could not be written; the run goes on", "see the reason in the message"),
        ("LISTENER_FAILED", "a warning: a method of a run's listener raised an exception; the run goes on", "correct the listener"),
    ),
    *_of(
        "checkpoint",
        ("NOT_A_CHECKPOINT", "the folder holds something that is not a checkpoint", "give the checkpoint's folder, or an empty or new one to begin one"),
        ("CHECKPOINT_URL_INVALID", "the URL of the checkpoint cannot be taken: it names no bucket, or holds a password or options", "write SCHEME://BUCKET/PREFIX; keys and options of the store come from the environment"),
        ("STORE_NOT_SUPPORTED", "of this kind of store it is not known that it creates a name only once", "use s3, gs or abfs, or a folder"),
        ("STORE_PACKAGE_MISSING", "the package for this kind of store is not installed", "pip install 'substrait-agg[stores]' for s3, gcsfs for gs, adlfs for abfs; also where Spark's workers run"),
        ("STORE_FAILED", "the object store did not answer, or with an error; nothing need be wrong with the checkpoint", "see to the connection and the keys, then run again; nothing is lost"),
        ("STORE_NOT_ATOMIC", "the store wrote over a name that it was to create only if it was not there, so that two runs could both commit", "use a store, or a version of it, with conditional writes"),
        ("STORE_NOT_CONSISTENT", "the store does not find or list what has just been written", "use a store that is consistent, without a cache in between"),
        ("PLAN_DIFFERS", "the checkpoint was made for another plan; the message names the inputs, keys, measures and columns that differ", "use a checkpoint of its own for each plan, or --evolve where only measures and names differ"),
        ("SOURCE_DIFFERS", "a table was read from another place, or in another format, when the checkpoint was made", "give the source as before; files that were only moved can be linked under their old path; --accept-source-change reads all that is at the new place"),
        ("EVOLVE_REFUSED", "the checkpoint cannot go on with this plan; the message names each measure or operator and why", "leave out what cannot be computed from what is kept, or begin a new checkpoint"),
        ("CHANGES_OF_TWO_PLANS", "changes were asked for of versions before and after run --evolve put another plan in place", "read up to the version before it, and without a first version from it on"),
        ("KEYS_DIFFER", "the checkpoint was made for sources with another key= or order=", "give the same as before, or a new checkpoint"),
        ("EARLY_RETRACTION_DIFFERS", "the checkpoint was made with another --early-retraction", "give the same as before, or a new checkpoint"),
        ("WATERMARK_DIFFERS", "the checkpoint was made with watermarks of other columns", "give the same columns as before, or a new checkpoint"),
        ("TTL_DIFFERS", "the checkpoint was made with another kind of --ttl", "give --ttl as before, or a new checkpoint"),
        ("WEIGHTS_DIFFER", "the checkpoint was made for sources whose rows had weights in another way", "give the same weight= or op= as before, or a new checkpoint"),
        ("VERSION_UNKNOWN", "there is no such version", "name one of those in the message"),
        ("VERSION_EXPIRED", "the state of so old a version is no longer kept", "add up the changes up to it instead"),
        ("NOT_QUARANTINED", "the checkpoint keeps no rows aside", "run with --early-retraction quarantine from the beginning"),
        ("STATE_DAMAGED", "a file of the checkpoint is missing, damaged or altered", "restore the whole folder from a copy, or begin a new checkpoint"),
        ("STATE_FORMAT_UNKNOWN", "a file of the checkpoint was written by a release with another format", "use that release, or begin a new checkpoint"),
        ("OFFSETS_LOST", "Spark's own offsets are missing, or belong to another query", "restore the whole folder from one copy, or begin a new checkpoint"),
        ("OFFSETS_DIFFER", "Spark goes on with another batch than the checkpoint", "restore the whole folder from one copy"),
        ("COMMIT_CONFLICT", "another run committed the next version of this checkpoint first, or has taken the checkpoint over", "let one run at a time use it; this one changed nothing"),
        ("CHECKPOINT_BUSY", "a run or a state command uses the checkpoint, or another run holds it and is suspended", "wait until it has ended, or end it; nothing was changed"),
        ("CHECKPOINT_NOT_WRITTEN", "the system refused to write a file of the checkpoint", "see to the space and the permissions of the folder, then run again; nothing is lost"),
        ("CHECKPOINT_NOT_SWEPT", "a warning: files that are not needed any more could not be removed; the run goes on", "see the reason in the message; they are removed later"),
        ("COMMIT_UNKNOWN", "the system failed in a way that does not tell whether a version was committed", "see to the disk, then run again: it goes on from what is there"),
        ("STATE_NOT_SHARED", "the driver does not find what a task wrote", "give a checkpoint folder that all machines of the cluster reach by the same path"),
        ("CHANGES_EXPIRED", "the changes of so old versions were vacuumed", "ask for those of later versions; the view is whole"),
        ("CHECKPOINT_NOT_LOCKED", "the file system or the store has no locks, so that nobody can tell whether a run is going on", "see to it that none is, and give --no-run"),
        ("ROLLBACK_UNFINISHED", "a rollback was begun and not finished", "run the same state rollback again: it goes on where it was"),
        ("OUTPUT_AHEAD", "outputs have had versions behind the one to go back to", "give --force, or go back to a version that all outputs have had last"),
        ("FILE_MISSING", "state verify: a version names a file that is not there", "restore the whole folder from a copy, or roll back to a version before it"),
        ("FILE_DAMAGED", "state verify: a file has not the size or the checksum that its version names", "restore the whole folder from a copy, or roll back to a version before it"),
        ("FILE_UNKNOWN", "a note of state verify: a file is none of a checkpoint", "move it away if you know where it comes from"),
        ("FILE_LEFT_OVER", "a note of state verify: no version names a file, or it was never finished", "nothing; the next sweep or state vacuum deletes it"),
        ("RUN_DAMAGED", "state verify: the content of a state file cannot be what was written", "restore the whole folder from a copy, or roll back to a version before it"),
        ("RUN_METADATA_WRONG", "state verify: what a version says of a state file does not fit it", "restore the whole folder from a copy, or roll back to a version before it"),
        ("RUN_ORDER_WRONG", "state verify: the rows of a state file are out of order", "restore the whole folder from a copy, or roll back to a version before it"),
        ("KEY_REPEATED", "state verify: a key is twice in a state file", "restore the whole folder from a copy, or roll back to a version before it"),
        ("RUNNING_SUM_WRONG", "state verify: the running sum of an ordered tree is wrong", "restore the whole folder from a copy, or roll back to a version before it"),
        ("RANGES_OVERLAP", "state verify: a state file counts twice for the same groups", "restore the whole folder from a copy, or roll back to a version before it"),
        ("COUNTS_DIFFER", "state verify: trees or counters of a version do not fit each other", "restore the whole folder from a copy, or roll back to a version before it"),
        ("SNAPSHOT_MISSING", "state verify: a version is missing between others", "restore the whole folder from a copy, or begin a new checkpoint"),
        ("CHAIN_BROKEN", "state verify: a version does not follow the one before it", "restore the whole folder from a copy, or roll back to a version before it"),
        ("CHANGES_DAMAGED", "state verify: the content of a change file cannot be what was written", "restore the whole folder from a copy, or roll back to a version before it"),
        ("VIEW_DIFFERS", "state verify: the view is not the sum of all changes", "restore the whole folder from a copy, or roll back to a version before it"),
    ),
    *_of(
        "run",
        ("PYSPARK_MISSING", "pyspark is not installed, or too old: only running a plan needs it", "pip install 'substrait-agg[spark]'"),
        ("PANDAS_MISSING", "pandas is not installed, or too old: Spark hands rows to Python with it", "pip install 'substrait-agg[spark]'"),
        ("JAVA_MISSING", "Spark needs Java 17 or newer, and there is none", "install it, or set JAVA_HOME"),
        ("JAVA_TOO_OLD", "Spark needs Java 17 or newer, and an older one was found", "install a newer one, or set JAVA_HOME to it"),
        ("JAVA_INCOMPLETE", "the Java that was found lacks modules that Spark needs, as one that jlink made may", "install a whole one, or set JAVA_HOME to it"),
        ("SPARK_NOT_STARTED", "Spark could not start", "check --master and --conf; --debug shows what Spark printed"),
        ("SETTING_REFUSED", "Spark does not take a setting of --conf", "correct it"),
        ("RUN_NOT_STARTED", "Spark could not start the run", "check the sources, their options and --conf"),
        ("RUN_STOPPED", "the run was stopped in the middle of a batch", "run again; nothing of the batch was committed"),
        ("BATCH_FAILED", "Spark could not compute a batch", "correct the input or the plan and run again; nothing of the batch was committed"),
        ("SPARK_LOST", "Spark's process has ended in the middle of a run: it was killed, or it crashed", "run again: it goes on behind the last committed version; where the system has killed it for want of memory, give it more (--conf spark.driver.memory=4g)"),
        ("WORKER_PYTHON_DIFFERS", "the Python workers of Spark run another Python than the driver", "set PYSPARK_PYTHON before Spark is started"),
        ("PACKAGE_NOT_ON_WORKERS", "the Python workers of Spark do not find this package", "install it in the Python of the executors"),
        ("FUNCTION_NOT_SUPPORTED", "a function of the plan cannot be computed on Spark", "see what substrait-agg functions lists"),
        ("ARGUMENT_NOT_CONSTANT", "an argument must be a constant where the plan is computed on Spark", "write it as a literal in the plan"),
    ),
    *_of(
        "command",
        ("USAGE", "the command was called with options that it does not have, or without one that it needs", "see its --help"),
        ("FILE_NOT_USABLE", "the system refused to read or write a file", "check the path, its permissions and the space left"),
        ("INTERRUPTED", "the user stopped the command", "run the same command again; a run goes on where it was"),
        ("INTERNAL", "an error of this program", "report it with what --debug shows"),
        ("PLAN_DEVIATES", "a warning or a remark: several problems of a plan, none an error, summed up", "list them with substrait-agg validate --verbose"),
        ("DUCKDB_MISSING", "duckdb is not installed, which checks what the demo has computed", "pip install 'substrait-agg[demo]'"),
        ("TOOL_MISSING", "the demo's data generator is not installed", "pip install 'substrait-agg[demo]'"),
        ("TOOL_FAILED", "the demo's data generator failed", "see its message"),
        ("DEMO_TOO_SHORT", "the demo's run ended before it could be killed", "give more --files"),
        ("DEMO_TOO_SLOW", "a version of the demo was not committed in time", "give a smaller --scale"),
        ("DEMO_RUN_FAILED", "the demo's run failed", "see what it printed"),
    ),
)  # fmt: skip

ERROR_CODES: dict[str, ErrorCode] = {row.code: row for row in _ALL}
