"""The table of errors that are not about a plan: code, what it says, what to do.

An exception of `substrait_agg.errors` carries one of these codes, or those of a plan's problems (`problem_kinds`). The
command shows them the same way; what it prints besides exceptions is here as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

Origin = OneOf["call", "sql", "source", "rows", "output", "checkpoint", "run", "command"]

ORIGINS: dict[Origin, str] = {
    "call": "Arguments and options",
    "sql": "SQL text",
    "source": "Sources",
    "rows": "Rows and values of a batch",
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
        ("FILE_NOT_READABLE", "the file cannot be read", "check the type and the permissions of the file"),
        ("NOT_A_FOLDER", "the path of a checkpoint is a file, not a folder", "give the folder that was given to run as --checkpoint"),
        ("NO_PLAN_IN_FOLDER", "no file in this folder is a plan with a known suffix", "name the files directly, or give another folder"),
        ("PLAN_SOURCE", "a plan was given as an object of an unsupported type", "give bytes, JSON text, a path or a Plan message"),
        ("PLAN_NOT_CONVERTED", "a plan has a field that the newest release of Substrait does not have", "remove the field, or use the plan as it is"),
        ("OPTION_INVALID", "an argument or option has an invalid value", "use one of the values in the message"),
        ("WATERMARK_COLUMN", "a watermark names a column that the tables of the plan do not have, or whose type is not a time", "name TABLE.COLUMN, a column of timestamps or dates"),
        ("EVENT_TIME_MISSING", "emission by watermark is asked for, but no grouping key depends on event time", "set a watermark on a column that is a grouping key or that a window is computed from"),
        ("EMIT_TOGETHER", "--emit delays rows of a join or a fetch; these change together, so they cannot wait separately", "give --emit batch, or aggregate above the join or below the fetch: then the groups of the aggregate wait"),
        ("EMIT_SEVERAL_VIEWS", "--emit delays groups, but a run of several views shows the same input in all of them at every version", "give --emit batch, or run the view whose groups wait on its own"),
        ("VIEWS_MISSING", "no view is given, or none whose rows are stored", "give at least one plan whose view is stored"),
        ("VIEW_NAME_INVALID", "a view has a name that outputs and files cannot have", "use a name without control characters, = and /"),
        ("VIEW_NAME_TAKEN", "a view and a source have the same name", "rename the view, or remove the source"),
        ("VIEW_CYCLE", "views read each other in a circle", "remove one of these reads; recursive views are not supported"),
        ("VIEW_COLUMNS_DIFFER", "a plan declares columns of another view that this view does not have, or with other types", "declare the view as its own plan computes it"),
        ("VIEW_UNKNOWN", "there is no view with this name", "use one of the names in the message"),
        ("VIEW_NAME_MISSING", "the checkpoint has several views, and no name says which one is meant", "add --name NAME"),
        ("TTL_MEANINGLESS", "--ttl has no effect on this plan: none of its groups can expire", "remove --ttl"),
        ("OPTION_CONFLICT", "options exclude each other", "remove one of them"),
        ("PARTITIONS_INVALID", "the number of state partitions is not a power of two, or is too large", "use 1, 2, 4, 8, ..."),
        ("OPERATOR_UNKNOWN", "the plan of the checkpoint has no operator with this number", "use a number that substrait-agg state ls lists"),
        ("TREE_UNKNOWN", "an operator has no tree of this name", "use one of the names in the message"),
        ("KEY_INVALID", "a group key is not JSON, or does not match the key columns", "write the key as the json outputs write the columns"),
        ("FUNCTION_UNKNOWN", "no function has this name", "substrait-agg functions lists all functions"),
        ("CODE_UNKNOWN", "no problem or error has this code", "substrait-agg problems lists all codes"),
    ),
    *_of(
        "sql",
        ("SQL_SYNTAX", "the text is not valid SQL", "correct the text at the line and column of the message"),
        ("SQL_STATEMENTS", "the text does not have exactly one query, or has a statement that is not supported", "give CREATE TABLE statements and one query"),
        ("SQL_TABLE_UNKNOWN", "a query reads a table that has no source and no CREATE TABLE statement", "correct the name, or add --source NAME=SPEC"),
        ("SQL_COLUMN_UNKNOWN", "a query names a column that its tables do not have", "use a column of the message"),
        ("SQL_FUNCTION_UNKNOWN", "a query calls a function that does not exist", "use a function of docs/sql.md"),
        ("SQL_TYPES", "arguments of a function or an operator have types that it does not take", "cast them to other types"),
        ("SQL_NOT_PLANNED", "DataFusion cannot plan the query, or cannot write its plan as Substrait", "write the query in another way"),
        ("SQL_NOT_DETERMINISTIC", "a query calls a function whose value changes without a change of a table, such as now()", "compare with a literal, or add the value to the rows"),
        ("SQL_NOT_MAINTAINED", "a pipeline has a statement or a clause that changes the rows of a view and cannot be maintained", "follow the advice of the message, which has the line"),
        ("SQL_VIEW_TWICE", "a pipeline creates a view twice", "rename or remove one of the statements"),
        ("SQL_VIEW_CYCLE", "views of a pipeline read each other in a circle", "remove one of these reads; recursive views are not supported"),
        ("SQL_FOLDER_EMPTY", "a folder of SQL has no file that ends in .sql", "name another folder"),
        ("SQL_CLAUSE_IGNORED", "a note: a clause of a pipeline has no effect, because it only says how Spark stores a table", "nothing"),
        ("SQL_NOT_IN", "NOT IN with a subquery is used where its value for nulls would be lost", "write NOT EXISTS"),
        ("DATAFUSION_MISSING", "datafusion is not installed, or too old; only SQL needs it", "pip install 'substrait-agg[sql]'"),
        ("IBIS_MISSING", "ibis is not installed; only ibis expressions need it", "pip install 'substrait-agg[ibis]'"),
    ),
    *_of(
        "source",
        ("SPEC_EMPTY", "a source has no location", "write [FORMAT:]LOCATION[?key=value&...]"),
        ("SPEC_FORMAT_MISSING", "a source has no format, and its suffix does not imply one", "write the format first, such as parquet:PATH"),
        ("SPEC_OPTION_BAD", "an option of a source is not key=value, or has an invalid value", "write ?key=value&key=value"),
        ("SPEC_OPTION_TWICE", "an option of a source is given twice", "give it once"),
        ("SPEC_OPTION_UNKNOWN", "a CSV, JSON or Parquet source has an unknown option", "use an option of docs/formats.md; the message suggests the nearest one"),
        ("SPEC_CHANGE_CONFLICT", "a source states more than once how rows distinguish inserts from deletes", "give one of weight=, op= and changes:"),
        ("KEY_COLUMN_UNKNOWN", "key= or order= names a column that the plan does not declare for the table", "name columns that the plan declares for the table; the plan need not use them"),
        ("ORDER_UNKNOWN", "a source with key= does not say which of two rows of a key is newer", "add order=COLUMN, or add batch-files=1 if the order of the files is the order of the rows"),
        ("TABLE_READS_DIFFER", "the plan declares a column of a table with several types, and the source of the table has key=", "declare the table in the same way in every read"),
        ("ENCODING_MISSING", "change events do not state how they encode a type", "add times= or decimals= to the source"),
        ("ENCODING_NOT_SUPPORTED", "a column has a type that cannot be read from change events", "remove the column from the plan, or flatten the events and give op=COLUMN"),
        ("SOURCE_MISSING", "a table of the plan has no source", "add --source TABLE=SPEC"),
        ("SOURCE_UNKNOWN", "a source is given for a table that the plan does not read", "remove the source, or use the table name of the plan"),
        ("SOURCE_AMBIGUOUS", "a source matches several tables, or several sources match one table", "write table names exactly as the plan does"),
        ("SOURCE_NOT_FOUND", "the location of a source does not exist", "check the path; create the folder before the run if files arrive later"),
        ("SOURCE_EMPTY", "a source has no file yet, so its columns are not known", "start the run when the first file exists"),
        ("SOURCE_UNREADABLE", "Spark cannot open the source", "check location, format and options; --debug shows Spark's log"),
        ("SOURCE_TYPES_UNKNOWN", "the plan gives no column types for a table, and its source has none either, or types that a plan cannot have", "give a source with types, such as Parquet or a DataFrame, or write the types into the plan"),
        ("SOURCE_FILE_GONE", "a file of the current batch was removed", "restore the file and run again; nothing of the batch was committed"),
        ("CSV_HEADER_MISSING", "the first line of a CSV file names no column that the plan reads", "write the column names in the first line of every file, or add ?header=false"),
        ("CSV_BY_POSITION", "a warning: a CSV source has no header, so its columns are matched by position", "check the columns in the message; with a header they are matched by name"),
        ("COLUMN_MISSING", "the source does not have a column of the plan", "add or rename the column in the source"),
        ("COLUMN_AMBIGUOUS", "several columns of the source have the name of a plan column, except for upper and lower case", "give one of them exactly the name in the plan"),
        ("COLUMN_TYPE_MISMATCH", "the type of a column in the source does not match its type in the plan", "convert the column in the source, or write the plan for the types of the source"),
    ),
    *_of(
        "rows",
        ("NULL_IN_REQUIRED_COLUMN", "a row has a null in a column that the plan declares as required", "correct the row, or declare the column nullable"),
        ("ROW_UNREADABLE", "a row of CSV or JSON cannot be parsed, or one of its values does not have the type of its column", "correct the row, or declare another type"),
        ("VALUE_OUT_OF_RANGE", "a value of a source does not fit the plan's type", "correct the value, or declare a wider type"),
        ("WEIGHT_IS_NULL", "a row has no weight", "give every row a weight"),
        ("OPERATION_UNKNOWN", "the op= column of a row holds an unknown word", "write one of the words in the message"),
        ("ENVELOPE_INVALID", "a change event is not JSON, or one of its values does not fit its column", "correct the event"),
        ("ROW_BEFORE_MISSING", "an update or delete event does not contain the old row", "name the primary key in the source (key=COLUMN), or configure the database to write whole rows (PostgreSQL: REPLICA IDENTITY FULL)"),
        ("ROW_AFTER_MISSING", "an insert or update event does not contain the new row", "correct the event"),
        ("KEY_IS_NULL", "a row of a source with key= has a null in its key", "correct the row, or use other key columns"),
        ("ORDER_IS_NULL", "a row of a source with order= has a null or a value without an order in that column", "correct the row, or order by a column that every row has"),
        ("VALUE_UNAVAILABLE", "an update event omits a large value that did not change, and no earlier event of the key contains it", "remove order=, start with a snapshot, or configure the database to write whole rows (PostgreSQL: REPLICA IDENTITY FULL)"),
        ("WEIGHT_OVERFLOW", "the weights of a value or of a group add up to more than the state can store", "check the weight column of the source"),
        ("SINGLE_JOIN_MATCHES", "a row of a single join has several matches", "make the other input unique by the key, for example with an aggregate"),
        ("EARLY_RETRACTION", "rows were deleted before they were inserted, and the run refuses this", "correct the source, or start a new checkpoint with --early-retraction carry or quarantine"),
        ("WATERMARK_PARTITIONS", "the column that partitions a source for its watermark has more than 10,000 values", "use a column with fewer values in by:, or remove it"),
        ("CAST_INVALID", "a cast of the plan fails for a value", "correct the value, or make the cast return null on failure"),
        ("OVERFLOW", "a function's result does not fit its type", "correct the value, or declare a wider type in the plan"),
        ("DOMAIN_ERROR", "a function is not defined for a value", "correct the value, or filter it in the plan"),
        ("DECIMAL_TOO_WIDE", "the divisor of a decimal division has more than 37 digits", "cast it to fewer digits in the plan"),
        ("RESULT_OVERFLOW", "a measure's value does not fit its type", "declare a wider output type, or the option overflow with SATURATE or SILENT"),
        ("RESULT_TOO_LARGE", "the lists or texts of a measure are too large to be written", "filter the values that the measure collects, or group by more keys"),
        ("TOTAL_OVERFLOW", "the totals of a user-defined measure have too many digits", "use fewer decimal places in the class of the measure"),
        ("SURROGATE_KEYS_EXHAUSTED", "a batch needs more surrogate keys than are left", "use smaller batches, or start a new checkpoint"),
    ),
    *_of(
        "output",
        ("OUTPUT_EXISTS", "the location of an output contains data that this checkpoint did not write", "remove the data, or use another location"),
        ("OUTPUT_VIEW_MISSING", "a run has several views, and an output does not say which one it is for", "write VIEW=KIND or VIEW=KIND=LOCATION"),
        ("OUTPUT_NOT_A_FILE", "an output needs a file, but its location is a folder", "give the path of a file"),
        ("OUTPUT_NOT_A_FOLDER", "an output needs a folder, but its location is a file", "give the path of a folder"),
        ("OUTPUT_DAMAGED", "an output file is shorter than the data that was written to it", "restore the file, or use another location"),
        ("OUTPUT_RECORD_DAMAGED", "the record of the delivered versions of an output is damaged", "remove the record together with the output; the next run writes both again"),
        ("OUTPUT_OF_OTHER_PLAN", "an output contains versions of the plan before --evolve, and cannot take other columns", "use a new location, or a new name"),
        ("OUTPUT_AHEAD", "an output has versions that the checkpoint does not have: the checkpoint is an older copy, or its newest versions are missing", "restore the newest copy of the whole folder, or remove the record together with the output"),
        ("OUTPUT_FAILING", "a warning: an output could not take a version; delivery is retried, and the run continues", "see the reason in the message"),
        ("OUTPUT_NOT_DELIVERED", "the run has ended before an output took every version; all versions are committed", "run again with the same arguments: delivery continues where it stopped"),
        ("OUTPUT_FORMAT_UNKNOWN", "Spark does not know the format of an output", "correct the name, or add the package that contains the format"),
        ("OUTPUT_NOT_WRITTEN", "Spark could not write a version to an output", "correct the target; delivery continues with this version"),
        ("OUTPUT_BUSY", "an earlier run in this process is still writing an output", "wait until it has finished, or use a new process"),
        ("METRICS_NOT_WRITABLE", "the file of --metrics cannot be written", "give the path of a file in a folder that exists"),
        ("METRICS_NOT_WRITTEN", "a warning: the metrics of a version could not be written; the run continues", "see the reason in the message"),
        ("LISTENER_FAILED", "a warning: a method of the listener raised an exception; the run continues", "correct the listener"),
    ),
    *_of(
        "checkpoint",
        ("NOT_A_CHECKPOINT", "the folder is not empty and is not a checkpoint", "give the folder of a checkpoint, or an empty or new folder to start one"),
        ("CHECKPOINT_URL_INVALID", "the URL of the checkpoint is not valid: it has no bucket, or contains a password or options", "write SCHEME://BUCKET/PREFIX; keys and options of the store come from the environment"),
        ("STORE_NOT_SUPPORTED", "this kind of store is not known to create a name only once", "use s3, gs or abfs, or a folder"),
        ("STORE_PACKAGE_MISSING", "the package for this kind of store is not installed", "pip install 'substrait-agg[stores]' for s3, gcsfs for gs, adlfs for abfs; install it on the Spark workers too"),
        ("STORE_FAILED", "the object store returned an error or did not answer; the checkpoint is probably intact", "check the connection and the keys, then run again; nothing is lost"),
        ("STORE_NOT_ATOMIC", "the store overwrote an object that it should create only if it is absent, so two runs could both commit", "use a store, or a version of it, with conditional writes"),
        ("STORE_NOT_CONSISTENT", "the store does not read or list an object that was just written", "use a consistent store without a cache in front of it"),
        ("PLAN_DIFFERS", "the checkpoint was made for another plan; the message names the inputs, keys, measures and columns that differ", "use one checkpoint per plan, or --evolve if only measures and names differ"),
        ("SOURCE_DIFFERS", "a table was read from another location, or in another format, when the checkpoint was made", "give the source as before; if the files were only moved, link them under their old path; --accept-source-change reads all data of the new location as new rows, and of a static table the difference"),
        ("EVOLVE_REFUSED", "the checkpoint cannot continue with this plan; the message names each measure or operator and the reason", "remove what cannot be computed from the stored state, or start a new checkpoint"),
        ("CHANGES_OF_TWO_PLANS", "the requested range of changes includes versions from before and after run --evolve changed the plan", "read the changes up to the last version of the old plan and those from the first version of the new plan separately"),
        ("KEYS_DIFFER", "the checkpoint was made for sources with another key= or order=", "give the same key= and order= as before, or use a new checkpoint"),
        ("STATIC_DIFFERS", "the checkpoint was made with other static tables", "give static=true (or a DataFrame that does not stream) for the same tables as before, or use a new checkpoint"),
        ("STATIC_TABLE_CHANGED", "the files or rows of a static table are not those that the first version read", "restore the table, start a new checkpoint, or take the difference in as changes with --accept-source-change"),
        ("STATIC_CHANGE_REFUSED", "--accept-source-change cannot take in the new rows of a static table; the message names the operator and the reason", "restore the table, or start a new checkpoint, which reads all input again; without static=true the table can change at any time"),
        ("EARLY_RETRACTION_DIFFERS", "the checkpoint was made with another --early-retraction", "give the same --early-retraction as before, or use a new checkpoint"),
        ("WATERMARK_DIFFERS", "the checkpoint was made with watermarks on other columns", "set watermarks on the same columns as before, or use a new checkpoint"),
        ("TTL_DIFFERS", "the checkpoint was made with another kind of --ttl", "give the same --ttl as before, or use a new checkpoint"),
        ("WEIGHTS_DIFFER", "the checkpoint was made for sources with another kind of weights", "give the same weight= or op= as before, or use a new checkpoint"),
        ("VERSION_UNKNOWN", "the checkpoint has no version with this number", "use one of the versions in the message"),
        ("VERSION_EXPIRED", "the state of this version is no longer kept", "add up the changes up to the version instead"),
        ("NOT_QUARANTINED", "the checkpoint has no quarantine", "start a checkpoint with --early-retraction quarantine"),
        ("STATE_DAMAGED", "a file of the checkpoint is missing, damaged or altered", "restore the whole folder from a copy, or start a new checkpoint"),
        ("STATE_FORMAT_UNKNOWN", "a file of the checkpoint was written by a release with another format", "use that release, or start a new checkpoint"),
        ("OFFSETS_LOST", "the offsets of Spark in the checkpoint are missing, or belong to another query", "restore the whole folder from one copy, or start a new checkpoint"),
        ("OFFSETS_DIFFER", "Spark continues with another batch than the checkpoint", "restore the whole folder from one copy"),
        ("COMMIT_CONFLICT", "another run committed the next version of this checkpoint first, or took the checkpoint over", "run one process at a time on a checkpoint; this run changed nothing"),
        ("CHECKPOINT_BUSY", "a run or a state command uses the checkpoint, or a suspended run still owns it", "wait until it has ended, or end it; nothing was changed"),
        ("CHECKPOINT_NOT_WRITTEN", "the system refused to write a file of the checkpoint", "check the free space and the permissions of the folder, then run again; nothing is lost"),
        ("CHECKPOINT_NOT_SWEPT", "a warning: files that are no longer needed could not be deleted; the run continues", "see the reason in the message; a later sweep deletes the files"),
        ("COMMIT_UNKNOWN", "the system failed during a commit, and it is not known whether the version was committed", "check the disk, then run again: the run continues from the last committed version"),
        ("STATE_NOT_SHARED", "the driver cannot find a file that a task wrote", "use a checkpoint folder that all machines of the cluster reach under the same path"),
        ("VERSION_ROLLED_BACK", "a stream of the Spark data source has read a version that a rollback has removed", "start the stream again with a new checkpoint location, and with changes=rows"),
        ("CHANGES_EXPIRED", "the changes of these versions were deleted by state vacuum", "read the changes of later versions; the view is complete"),
        ("CHECKPOINT_NOT_LOCKED", "the file system or the store has no locks, so a running run cannot be detected", "check that no run is in progress, then give --no-run"),
        ("ROLLBACK_UNFINISHED", "a rollback was started and not finished", "run the same state rollback again: it continues where it stopped"),
        ("OUTPUT_AHEAD", "outputs have versions after the target of the rollback", "give --force, or roll back to a version that every output had last"),
        ("FILE_MISSING", "state verify: a version refers to a file that does not exist", "restore the whole folder from a copy, or roll back to an earlier version"),
        ("FILE_DAMAGED", "state verify: the size or the checksum of a file is not the one that its version states", "restore the whole folder from a copy, or roll back to an earlier version"),
        ("FILE_UNKNOWN", "a note of state verify: a file does not belong to the checkpoint", "move it away if you know where it comes from"),
        ("FILE_LEFT_OVER", "a note of state verify: no version refers to a file, or the file is incomplete", "nothing; the next sweep or state vacuum deletes it"),
        ("RUN_DAMAGED", "state verify: the content of a state file is not valid", "restore the whole folder from a copy, or roll back to an earlier version"),
        ("RUN_METADATA_WRONG", "state verify: the snapshot of a version describes a state file incorrectly", "restore the whole folder from a copy, or roll back to an earlier version"),
        ("RUN_ORDER_WRONG", "state verify: the rows of a state file are out of order", "restore the whole folder from a copy, or roll back to an earlier version"),
        ("KEY_REPEATED", "state verify: a state file contains a key twice", "restore the whole folder from a copy, or roll back to an earlier version"),
        ("RUNNING_SUM_WRONG", "state verify: the running sum of an ordered tree is wrong", "restore the whole folder from a copy, or roll back to an earlier version"),
        ("RANGES_OVERLAP", "state verify: a state file is live twice for the same groups", "restore the whole folder from a copy, or roll back to an earlier version"),
        ("COUNTS_DIFFER", "state verify: trees or counters of a version contradict each other", "restore the whole folder from a copy, or roll back to an earlier version"),
        ("SNAPSHOT_MISSING", "state verify: a version is missing between others", "restore the whole folder from a copy, or start a new checkpoint"),
        ("CHAIN_BROKEN", "state verify: a version does not follow the one before it", "restore the whole folder from a copy, or roll back to an earlier version"),
        ("CHANGES_DAMAGED", "state verify: the content of a change file is not valid", "restore the whole folder from a copy, or roll back to an earlier version"),
        ("VIEW_DIFFERS", "state verify: the view is not the sum of all changes", "restore the whole folder from a copy, or roll back to an earlier version"),
    ),
    *_of(
        "run",
        ("PYSPARK_MISSING", "pyspark is not installed, or too old; only run needs it", "pip install 'substrait-agg[spark]'"),
        ("PANDAS_MISSING", "pandas is not installed, or too old; Spark passes rows to Python with it", "pip install 'substrait-agg[spark]'"),
        ("JAVA_MISSING", "Spark needs Java 17 or newer, and no Java was found", "install Java, or set JAVA_HOME"),
        ("JAVA_TOO_OLD", "Spark needs Java 17 or newer, and an older Java was found", "install a newer Java, or set JAVA_HOME to one"),
        ("JAVA_INCOMPLETE", "Java lacks modules that Spark needs, for example because jlink built it", "install a complete Java, or set JAVA_HOME to one"),
        ("CONNECT_NOT_SUPPORTED", "a run was given a session or a DataFrame of Spark Connect, or its process uses Spark Connect", "run in a process without SPARK_REMOTE; a session of Spark Connect can read the view"),
        ("SPARK_NOT_STARTED", "Spark could not start", "check --master and --conf; --debug shows what Spark printed"),
        ("SETTING_REFUSED", "Spark refuses a setting of --conf", "correct the setting"),
        ("RUN_NOT_STARTED", "Spark could not start the run", "check the sources, their options and --conf"),
        ("RUN_STOPPED", "the run was stopped in the middle of a batch", "run again; nothing of the batch was committed"),
        ("BATCH_FAILED", "Spark could not compute a batch", "correct the input or the plan and run again; nothing of the batch was committed"),
        ("SPARK_LOST", "the process of Spark ended during a run: it was killed, or it crashed", "run again: the run continues after the last committed version; if the system killed Spark for lack of memory, give it more (--conf spark.driver.memory=4g)"),
        ("WORKER_PYTHON_DIFFERS", "the Python workers of Spark run another Python version than the driver", "set PYSPARK_PYTHON before Spark starts"),
        ("PACKAGE_NOT_ON_WORKERS", "the Python workers of Spark cannot import this package", "install it in the Python of the executors"),
        ("FUNCTION_NOT_SUPPORTED", "a function of the plan cannot be computed on Spark", "substrait-agg functions lists the supported functions"),
        ("ARGUMENT_NOT_CONSTANT", "an argument must be a constant for Spark to compute the function", "write it as a literal in the plan"),
    ),
    *_of(
        "command",
        ("USAGE", "the command was called with an unknown option, or without a required one", "see the --help of the command"),
        ("FILE_NOT_USABLE", "the system refused to read or write a file", "check the path, its permissions and the free space"),
        ("INTERRUPTED", "the user stopped the command", "run the same command again; a run continues where it stopped"),
        ("INTERNAL", "a bug in this program", "report it with the output of --debug"),
        ("PLAN_DEVIATES", "a warning or a note: summarizes several problems of a plan, none of them an error", "substrait-agg validate --verbose lists them"),
        ("DUCKDB_MISSING", "duckdb is not installed; the demo checks its result with it", "pip install 'substrait-agg[demo]'"),
        ("TOOL_MISSING", "the demo's data generator is not installed", "pip install 'substrait-agg[demo]'"),
        ("TOOL_FAILED", "the demo's data generator failed", "see the message of the generator"),
        ("DEMO_TOO_SHORT", "the run of the demo ended before it could be killed", "give more --files"),
        ("DEMO_TOO_SLOW", "a version of the demo was not committed in time", "give a smaller --scale"),
        ("DEMO_RUN_FAILED", "the run of the demo failed", "see the output of the run"),
    ),
)  # fmt: skip

ERROR_CODES: dict[str, ErrorCode] = {row.code: row for row in _ALL}
