"""List problems of aggregates, their grouping sets and their measures."""

from __future__ import annotations

from substrait_agg.problem_kinds.kind import ProblemKind, kinds

AGGREGATES: tuple[ProblemKind, ...] = kinds(
    "aggregates",
    (
        "GROUPING_INDEX_NOT_NAMED", "warning", "error",
        "the column that says which grouping set made a row has no name; it is left out",
        "name it, or leave it out with an output mapping",
        ("With more than one grouping set, the last column is the index of the set that made the row (specification, "
         "Aggregate Operation). Builders that name keys and measures only leave it out; then a subtotal looks like the "
         "group of a null key."),
    ),
    (
        "GROUPING_INDEX_NOT_COUNTED", "warning", "error",
        ("the plan numbers columns as if the aggregate ended with its {count} keys and measures; it is read without "
         "the index of the grouping set"),
        "count the index as the last column of the aggregate, or leave it out with an output mapping",
        ("With more than one grouping set, the last column is the index of the set that made the row (specification, "
         "Aggregate Operation). Producers are known that do not count it. Read by the letter, the index stands where "
         "the first expression of the project above is meant, and every expression moves by one."),
    ),
    (
        "GROUPING_KEY_ORDER", "warning", "error",
        "the plan numbers the grouping keys by their columns in the input; their order is {order}",
        "number them as they are written, or write an output mapping",
        ("The first columns of an aggregate are its grouping expressions in declaration order (specification, "
         "Aggregate Operation). This producer numbers them by their columns in the input. Read by the letter, one key "
         "would be taken for another."),
    ),
    (
        "GROUPING_KEY_REPEATED", "warning", "error",
        ("a grouping set names {count} expressions, of which {distinct} differ; each is a column of its own, as the "
         "names and references of the plan have it"),
        "name each expression once, or write the expressions beside the sets and refer to them",
        ("Grouping expressions that stand inside the sets are the older form; equal ones are one column (release notes "
         "of Substrait 0.57). Some producers mean a column for each. Read by the letter, every column behind the second "
         "one moves."),
    ),
    (
        "GROUPING_LAYOUT", "warning", "error",
        "{producer} numbers its columns so: distinct keys ({keys}), bitmask of the keys left out, measures ({measures})",
        "number them as the specification does: every grouping expression, the measures, the index of the grouping set",
        ("The columns of an aggregate are all grouping expressions, the measures, and the index of the grouping set "
         "(specification, Aggregate Operation). This producer counts columns of a layout of its own; read by the "
         "letter, measures would be taken for keys and the other way round."),
    ),
    (
        "GROUPING_EXPRESSION_UNUSED", "error", "error",
        "grouping expression {ordinal} is in no grouping set",
        "refer to it from a grouping set, or remove it",
        ("Every grouping expression is referred to by at least one grouping set (specification, Aggregate Operation). "
         "A consumer that groups by it all the same makes other groups, one that drops it moves every column behind "
         "it."),
    ),
    (
        "GROUPING_REFERENCE_OUT_OF_RANGE", "error", "error",
        "the grouping set refers to expression {ordinal}, but there are {count}",
        "refer to grouping expressions 0 to {last}",
        ("A grouping set refers to the grouping expressions of its aggregate by their ordinals, from 0 (specification, "
         "Aggregate Operation), not to columns of the input. Where columns were counted, the references within range "
         "mean the wrong keys as well."),
    ),
    (
        "AGGREGATE_EMPTY", "error", "error",
        "the aggregate has neither grouping expressions nor measures",
        "add a measure or a grouping expression",
        ("An aggregate without columns is not valid (specification, Aggregate Operation). Nothing can be shown for it: "
         "a consumer that takes it gives rows without columns."),
    ),
    (
        "KEY_TYPE_NOT_SUPPORTED", "error", "error",
        "rows cannot be grouped by values of type {type}",
        "group by a column of another type",
        ("A limit of this program: groups are found by comparing keys, and values of this type have no order that "
         "would tell equal ones."),
    ),
    (
        "AGGREGATE_FUNCTION_UNKNOWN", "error", "error",
        "aggregate function {name} is not known",
        "use one of: {maintained}",
        ("No function of this name is known, under any extension. A measure cannot be left out: the columns behind it "
         "would move."),
    ),
    (
        "AGGREGATE_FUNCTION_NOT_SUPPORTED", "error", "error",
        "aggregate function {name} is known, but not maintained: {reason}",
        "use one of: {maintained}",
        ("A limit of this program. An approximation or a part of the result would be a column of the right name with "
         "wrong values."),
    ),
    (
        "FUNCTION_NOT_AGGREGATE", "error", "error",
        "{name} is a {what} function; a measure needs an aggregate function",
        "compute it in a projection, or use an aggregate function",
        ("Scalar, aggregate and window functions are declared apart, and a measure calls an aggregate function "
         "(specification, Aggregate Functions). A consumer that evaluates the function on some row of the group gives "
         "a value by chance."),
    ),
    (
        "CONSTANT_ARGUMENT_INVALID", "error", "error",
        "argument {argument} of {function} is no constant that it can be: {reason}",
        "write a literal that it can be",
        ("Some arguments hold for all rows: the separator of a list, the fraction of a percentile, the position of a "
         "value, the format of a time. They are declared or meant as constants (specification, Scalar Functions); a consumer "
         "that takes them from some row depends on which row that is."),
    ),
    (
        "ARGUMENT_ASSUMED", "warning", "error",
        "{function} has no argument {argument}; {value} is taken",
        "write the argument that the query means",
        ("The function is declared with the argument, so nothing says what holds without it (specification, Aggregate "
         "Functions). Some producers lose it: DuckDB's extension writes string_agg(x, '-') without its separator. What "
         "is taken may then be another value than that of the query, and so are the texts."),
    ),
    (
        "DISTINCT_NOT_SUPPORTED", "error", "error",
        "{name} cannot be over distinct values: {reason}",
        "use the invocation ALL",
        ("With the invocation DISTINCT, equal values are merged before they are aggregated (specification, Aggregate "
         "Functions). Where that has no meaning, or none that can be kept up to date, consumers that drop the word "
         "count every row."),
    ),
    (
        "DISTINCT_NO_EFFECT", "info", "info",
        "{name} is over distinct values, which changes nothing: {reason}",
        "use the invocation ALL",
        ("With the invocation DISTINCT, equal values are merged before they are aggregated (specification, Aggregate "
         "Functions). It cannot change this result, so it is not computed; a consumer that obeys it to the letter pays "
         "with a sort or a hash table."),
    ),
    (
        "ORDER_BY_NOT_SUPPORTED", "error", "error",
        "{name} cannot have an order of rows: {reason}",
        "remove the sorts of the measure",
        ("A measure may be ordered only where its function allows it (specification, Aggregate Functions). The result "
         "does not come from rows in an order; a consumer that drops the order returns something else than was asked "
         "for."),
    ),
    (
        "ORDER_BY_NO_EFFECT", "warning", "warning",
        "{name} has an order of rows, which changes nothing: {reason}",
        "remove the sorts of the measure",
        ("A measure may be ordered only where its function allows it (specification, Aggregate Functions). No order of "
         "rows can change this result; most likely the order was meant for another measure."),
    ),
    (
        "ORDER_DIRECTION_NOT_SUPPORTED", "error", "error",
        "the order of {name} has direction {direction}, which says no order of values",
        "use ascending or descending with nulls first or last, or clustered",
        ("Every sort field says its direction and where nulls go (specification, Sort Operation); unspecified is only "
         "the default of the enumeration. Consumers that assume ascending differ in where they put the nulls of a list "
         "or text."),
    ),
    (
        "ORDER_KEY_NOT_SUPPORTED", "error", "error",
        "{name} is ordered by values of type {type}, which have no order",
        "order by a column of another type",
        "A limit of this program: values of this type have no order, so rows cannot be put in one by them.",
    ),
    (
        "ORDER_NOT_BY_ARGUMENT", "error", "error",
        "{name} is ordered by something else than what it aggregates",
        "sort by the aggregated argument",
        ("These functions sort by what they aggregate, which SQL writes as WITHIN GROUP; no other order means anything "
         "to them. A consumer that drops the order hides a mistake, one that follows it aggregates the sort key "
         "instead of the argument."),
    ),
    (
        "DISTINCT_ORDER_OUTSIDE", "error", "error",
        "{name} is over distinct values, but ordered by an expression that is not among its arguments",
        "sort by the arguments, or do not ask for distinct values",
        ("The specification does not say where a merged value stands when its rows have different sort keys. "
         "PostgreSQL, DuckDB and Trino refuse it as well; a consumer that goes on takes the key of some row."),
    ),
    (
        "MEASURE_FILTER_NOT_SUPPORTED", "error", "error",
        "{name} cannot have a filter: {reason}",
        "remove the filter of the measure",
        ("Only rows for which the filter is true are aggregated (specification, Aggregate Operation). The function "
         "says something about the group and not about its rows, so a filter has nothing to choose from; a consumer "
         "that drops it gives a value that was to be left out."),
    ),
    (
        "GROUPING_ARGUMENT", "error", "error",
        "argument {position} of {name} is not one of the aggregate's grouping expressions",
        "name grouping expressions of the same aggregate, at most {most}",
        ("grouping() says which keys a grouping set leaves out, so its arguments are grouping expressions of the same "
         "aggregate. For anything else there is no answer; consumers that give 0 take a subtotal for a group."),
    ),
    (
        "PHASE_UNSPECIFIED", "warning", "error",
        "{name} states no phase; the complete aggregate is computed",
        "set the phase to INITIAL_TO_RESULT",
        ("The phase is required, and a phase that is not set is documented to mean the merge of intermediate states "
         "(specification, Aggregate Functions). DataFusion, DuckDB and substrait-python leave it out and mean the "
         "complete aggregate, as it is read here; by the letter the plan would take rows for states."),
    ),
    (
        "PHASE_NOT_SUPPORTED", "error", "error",
        "{name} is in phase {phase}; only complete aggregates are computed",
        "set the phase to INITIAL_TO_RESULT",
        ("Partial phases take or give the intermediate state of a function (specification, Aggregate Functions), which "
         "every engine has in a form of its own. A consumer that ignores the phase gives finished values where states "
         "are expected, so averages are averaged and counts are counted."),
    ),
    (
        "MEASURE_FILTER_NOT_BOOLEAN", "error", "error",
        "the filter of {name} is {type}, not boolean",
        "write a filter whose type is boolean",
        ("The filter of a measure is boolean, and true means that the row counts (specification, Aggregate Operation). "
         "A consumer that takes other types decides for itself which values are true."),
    ),
    (
        "OUTPUT_TYPE_MISSING", "warning", "error",
        "{name} declares no output type; {type} is derived",
        "declare the output type",
        ("A measure declares the type of its result, exactly as the function's declaration derives it (specification, "
         "Aggregate Functions). Without it every consumer derives its own: sums of decimals then differ in their "
         "digits."),
    ),
    (
        "OUTPUT_TYPE_DIFFERS", "info", "error",
        "{name} declares {declared}, its arguments give {derived}; the exact value is converted",
        "declare {derived}",
        ("The declared type has to be the one that the function's declaration derives (specification, Aggregate "
         "Functions). Here the exact value is rounded once to the declared type; consumers that compute in it overflow "
         "or lose digits on the way."),
    ),
    (
        "OUTPUT_TYPE_NOT_SUPPORTED", "error", "error",
        "{name} of {argument} cannot be given as {declared}",
        "declare {derived}",
        ("The declared type has to be the one that the function's declaration derives (specification, Aggregate "
         "Functions). The result cannot be converted to this one, so the plan was made for another function or other "
         "columns."),
    ),
    (
        "OUTPUT_NULLABILITY", "warning", "error",
        "{name} declares {declared}, but is null when no value counts; the column is nullable",
        "declare the output type nullable",
        ("A function such as sum is null for a group in which no value counts, and its declaration says so whatever "
         "its arguments are (specification, Aggregate Functions). A consumer that believes the plan shows 0, or "
         "whatever value lies under the null."),
    ),
    (
        "SIGNATURE_UNKNOWN", "warning", "error",
        "{urn} declares no {name}",
        "declare a signature that it has: {known}",
        ("A function is declared under the name and the argument types that its extension has (specification, "
         "Extensions). The call is bound by its name and the arguments that it is given; a consumer that looks the "
         "declared name up finds nothing, or another implementation that is spelled alike."),
    ),
    (
        "FUNCTION_DEPRECATED", "info", "warning",
        "{name} is deprecated since release {since} of the specification",
        "{instead}",
        ("The extension marks this form as deprecated, and a later release may remove it (specification, Extensions). "
         "It is still computed as it was meant; a consumer of that later release finds no such function."),
    ),
    (
        "ARGUMENT_COUNT", "error", "error",
        "{function} takes {needed}, {count} given",
        "{function} takes {takes}",
        ("The number of arguments is that of one implementation (specification, Scalar Functions). A consumer that "
         "ignores an argument too many, or fills one in, computes another function."),
    ),
    (
        "ENUM_ARGUMENT_INVALID", "error", "error",
        "argument {argument} of {function} is {word}, which is none of the words that are taken",
        "write one of: {words}",
        ("An enumeration argument is one of the words of its declaration, in any case (specification, Scalar "
         "Functions). It decides what is computed, such as a sample's or a population's deviation; a consumer that "
         "takes a default for an unknown word computes the other one."),
    ),
    (
        "OPTION_NO_PREFERENCE", "error", "error",
        "option {option} of {function} has no preference",
        "prefer one of: {known}, or remove the option",
        ("An option lists at least one preference, and the first one that a consumer supports holds (specification, "
         "Option Preference). Without any the plan says that the option matters, but not how."),
    ),
    (
        "PHASE_NOT_DECOMPOSABLE", "error", "error",
        "{name} is in phase {phase}, but {declared} is declared without an intermediate result",
        "set the phase to INITIAL_TO_RESULT",
        ("A function whose declaration has no intermediate type is computed in one step (specification, Aggregate "
         "Functions, Decomposable). There is no state that a first step could hand on: a consumer that merges results "
         "instead gives medians of medians and deviations of deviations."),
    ),
    (
        "ORDER_MISSING", "info", "warning",
        "{name} depends on the order of rows, but has no sorts; {taken}",
        "give the measure the sorts that are meant",
        ("Without sorts a measure sees its rows in no order (specification, Aggregate Functions). Here an order is "
         "chosen that depends on the values alone; elsewhere the result follows from how rows were read and split, and "
         "differs from run to run."),
    ),
    (
        "COMPARISON_FUNCTION_NOT_SUPPORTED", "error", "error",
        "the order of {name} is that of the comparison function {function}, which is not run",
        "sort ascending or descending",
        ("A sort field may name a function that compares two values instead of a direction (specification, Sort "
         "Operation). It is a limit of this program that none is run; a consumer that sorts by the values' own order "
         "returns them in another one."),
    ),
    (
        "MEASURE_FILTER_CONSTANT", "warning", "warning",
        "the filter of {name} is the constant {value}: {effect}",
        "remove the filter, or write the condition that is meant",
        ("Only rows for which the filter is true are aggregated (specification, Aggregate Operation). A constant "
         "selects all rows or none, which is seldom meant: mostly a part of the condition was lost when the plan was "
         "made."),
    ),
    (
        "MEASURE_DUPLICATE", "info", "info",
        "{name} computes the same as measure {other} of this aggregate",
        "read the column of measure {other} twice, with an output mapping",
        ("The specification does not forbid it, and the result is right: both share their state here, and are computed "
         "twice by a consumer that does not notice. Mostly it is a slip of the pen, and the second measure was meant "
         "for another column."),
    ),
    (
        "KEY_TYPE_FLOAT", "info", "info",
        ("rows are grouped by values of type {type}: -0.0 and 0.0 are one group, so are all NaNs,"
         " and numbers that differ in the last digit are two"),
        "group by an integer, a decimal or a rounded value",
        ("The specification does not say which floats are equal as keys. Here NaNs are one group, and so are -0.0 and "
         "0.0; a system that compares their bits makes several groups of them, and values that were computed in "
         "different orders differ in their last digit everywhere."),
    ),
    (
        "WINDOWS_SEVERAL", "error", "error",
        "the aggregate is grouped by {count} hopping or session windows; it can be by one",
        "group by one window here, and by the other in an aggregate of its own",
        ("A rule of extension substrait_agg:functions_windows: several windows would make a group of every pair of them, and "
         "sessions be told apart by windows that contain them. None of that has an agreed meaning."),
    ),
    (
        "SESSION_GROUPING_SETS", "error", "error",
        "session is a grouping expression of an aggregate with {count} grouping sets",
        "write an aggregate with one grouping set, and a union of several where more are needed",
        ("A limit of this program: the sessions of a row depend on the other grouping expressions, so every grouping set "
         "has sessions of its own. A consumer that computes them once gives wrong sessions for all other sets."),
    ),
    (
        "SESSION_ARRIVAL", "error", "error",
        "{name} has no order, so the arrival of the rows decides; in an aggregate that groups by a session it is not kept",
        "give the measure an order, such as by the time",
        ("A limit of this program: when the bounds of a session move, all its rows are retracted and inserted anew, and come "
         "again in another order. Which of them came first from the source is then not known any more."),
    ),
    (
        "KEY_TYPE_NESTED", "info", "info",
        "rows are grouped by values of type {type}: they are one group where every part is equal, nulls inside too",
        "group by the parts that tell rows apart",
        ("The specification does not say when nested values are equal as keys. Here two nulls inside are equal, as "
         "they are between keys; a system that compares nested values as SQL's = does makes a group of its own for "
         "each null."),
    ),
    (
        "GROUPING_SET_DUPLICATE", "info", "warning",
        "grouping set {ordinal} has the keys of set {other}; its rows are given twice, with another index",
        "remove one of the two sets",
        ("Equal grouping sets are allowed, and each gives its rows with its own index (specification, Aggregate "
         "Operation). A consumer that merges them gives these rows once, one that does not gives them twice, and who "
         "adds them up counts twice."),
    ),
    (
        "GROUPING_EXPRESSION_DUPLICATE", "info", "warning",
        "grouping expression {ordinal} is the same as {other}; both are columns",
        "refer to expression {other} from the grouping sets",
        ("Grouping expressions are output columns, each one (specification, Aggregate Operation). Some producers and "
         "consumers merge equal ones, which moves every column behind them."),
    ),
)  # fmt: skip
