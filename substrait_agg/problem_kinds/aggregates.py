"""List problems of aggregates, their grouping sets and their measures."""

from __future__ import annotations

from substrait_agg.problem_kinds.kind import ProblemKind, kinds

AGGREGATES: tuple[ProblemKind, ...] = kinds(
    "aggregates",
    (
        "GROUPING_INDEX_NOT_NAMED", "warning", "error",
        "the column with the index of the grouping set has no name; it is dropped",
        "name the column, or drop it with an output mapping",
        ("With more than one grouping set, the last column is the index of the set that produced the row "
         "(specification, Aggregate Operation). Builders that name keys and measures only forget it. Then a subtotal "
         "cannot be distinguished from the group of a null key."),
    ),
    (
        "GROUPING_INDEX_NOT_COUNTED", "warning", "error",
        ("the plan numbers columns as if the aggregate had only its {count} keys and measures; it is read without the "
         "index of the grouping set"),
        "count the index as the last column of the aggregate, or drop it with an output mapping",
        ("With more than one grouping set, the last column is the index of the set that produced the row "
         "(specification, Aggregate Operation). Some producers do not count it. Read literally, the first expression "
         "of the project above would be the index, and every expression would move by one."),
    ),
    (
        "GROUPING_KEY_ORDER", "warning", "error",
        "the plan numbers the grouping keys by their columns in the input; their order is {order}",
        "number the keys in the order in which they are written, or write an output mapping",
        ("The first columns of an aggregate are its grouping expressions in declaration order (specification, "
         "Aggregate Operation). This producer numbers them by their columns in the input. Read literally, keys would "
         "be swapped."),
    ),
    (
        "GROUPING_KEY_REPEATED", "warning", "error",
        ("a grouping set names {count} expressions, of which {distinct} differ; each is a column of its own, as the "
         "names and references of the plan require"),
        "name each expression once, or write the expressions next to the sets and refer to them",
        ("Grouping expressions inside the sets are the older form, in which equal expressions are one column (release "
         "notes of Substrait 0.57). Some producers mean one column for each. Read literally, every column after the "
         "second one would move."),
    ),
    (
        "GROUPING_LAYOUT", "warning", "error",
        ("{producer} numbers the columns in its own layout: distinct keys ({keys}), bitmask of the excluded keys, "
         "measures ({measures})"),
        "use the layout of the specification: all grouping expressions, the measures, the index of the grouping set",
        ("The columns of an aggregate are all grouping expressions, the measures, and the index of the grouping set "
         "(specification, Aggregate Operation). This producer counts the columns of another layout. Read literally, "
         "measures would be read as keys and keys as measures."),
    ),
    (
        "GROUPING_EXPRESSION_UNUSED", "error", "error",
        "grouping expression {ordinal} is not in any grouping set",
        "refer to it from a grouping set, or remove it",
        ("Every grouping expression is referred to by at least one grouping set (specification, Aggregate Operation). "
         "A consumer that groups by it anyway makes other groups; one that drops it moves every column after it."),
    ),
    (
        "GROUPING_REFERENCE_OUT_OF_RANGE", "error", "error",
        "the grouping set refers to expression {ordinal}, but there are {count}",
        "refer to grouping expressions 0 to {last}",
        ("A grouping set refers to the grouping expressions of its aggregate by their ordinals, from 0 "
         "(specification, Aggregate Operation), not to columns of the input. If columns were counted, references "
         "within range mean the wrong keys as well."),
    ),
    (
        "AGGREGATE_EMPTY", "error", "error",
        "the aggregate has neither grouping expressions nor measures",
        "add a measure or a grouping expression",
        ("An aggregate without columns is not valid (specification, Aggregate Operation). Its rows would have no "
         "columns."),
    ),
    (
        "KEY_TYPE_NOT_SUPPORTED", "error", "error",
        "rows cannot be grouped by values of type {type}",
        "group by a column of another type",
        "A limit of this program: groups are found by comparing keys, and values of this type cannot be compared.",
    ),
    (
        "AGGREGATE_FUNCTION_UNKNOWN", "error", "error",
        "aggregate function {name} is not known",
        "use one of: {maintained}",
        "No extension declares a function of this name. A measure cannot be dropped: the columns after it would move.",
    ),
    (
        "AGGREGATE_FUNCTION_NOT_SUPPORTED", "error", "error",
        "aggregate function {name} is not supported: {reason}",
        "use one of: {maintained}",
        ("A limit of this program. An approximation or a partial result would be a column with the right name and "
         "wrong values."),
    ),
    (
        "FUNCTION_NOT_AGGREGATE", "error", "error",
        "{name} is a {what} function; a measure needs an aggregate function",
        "compute it in a projection, or use an aggregate function",
        ("Scalar, aggregate and window functions are declared separately, and a measure calls an aggregate function "
         "(specification, Aggregate Functions). A consumer that evaluates the function on one row of the group "
         "returns an arbitrary value."),
    ),
    (
        "CONSTANT_ARGUMENT_INVALID", "error", "error",
        "argument {argument} of {function} is not a valid constant: {reason}",
        "write a literal that is valid there",
        ("Some arguments are the same for all rows: the separator of a list, the fraction of a percentile, the "
         "position of a value, the format of a time. They must be constants (specification, Scalar Functions). A "
         "consumer that reads them from one row depends on which row that is."),
    ),
    (
        "ARGUMENT_ASSUMED", "warning", "error",
        "{function} has no argument {argument}; {value} is used",
        "write the argument",
        ("The function is declared with the argument, and the specification defines no default (specification, "
         "Aggregate Functions). Some producers lose it: the extension of DuckDB writes string_agg(x, '-') without its "
         "separator. The assumed value can differ from the one in the query, and then the result differs."),
    ),
    (
        "DISTINCT_NOT_SUPPORTED", "error", "error",
        "{name} does not support distinct values: {reason}",
        "use the invocation ALL",
        ("With the invocation DISTINCT, equal values are merged before they are aggregated (specification, Aggregate "
         "Functions). For this function that is undefined, or cannot be maintained. Consumers that ignore DISTINCT "
         "count every row."),
    ),
    (
        "DISTINCT_NO_EFFECT", "info", "info",
        "{name} is over distinct values, which has no effect: {reason}",
        "use the invocation ALL",
        ("With the invocation DISTINCT, equal values are merged before they are aggregated (specification, Aggregate "
         "Functions). It cannot change this result, so it is not computed. A consumer that computes it pays for a "
         "sort or a hash table."),
    ),
    (
        "ORDER_BY_NOT_SUPPORTED", "error", "error",
        "{name} does not support an order of rows: {reason}",
        "remove the sorts of the measure",
        ("A measure may be ordered only if its function allows it (specification, Aggregate Functions). The result "
         "does not depend on rows in an order. A consumer that drops the order returns a different result than the "
         "plan asks for."),
    ),
    (
        "ORDER_BY_NO_EFFECT", "warning", "warning",
        "{name} has an order of rows, which has no effect: {reason}",
        "remove the sorts of the measure",
        ("A measure may be ordered only if its function allows it (specification, Aggregate Functions). No order of "
         "rows can change this result. Most likely the order was intended for another measure."),
    ),
    (
        "ORDER_DIRECTION_NOT_SUPPORTED", "error", "error",
        "the order of {name} has direction {direction}, which does not order values",
        "use ascending or descending with nulls first or last, or clustered",
        ("Every sort field has a direction and a place for nulls (specification, Sort Operation); unspecified is only "
         "the default of the enumeration. Consumers that assume ascending differ in where they put the nulls of a "
         "list or text."),
    ),
    (
        "ORDER_KEY_NOT_SUPPORTED", "error", "error",
        "{name} is ordered by values of type {type}, which have no order",
        "order by a column of another type",
        "A limit of this program: values of this type cannot be compared, so they cannot order rows.",
    ),
    (
        "ORDER_NOT_BY_ARGUMENT", "error", "error",
        "{name} is not ordered by its argument",
        "sort by the aggregated argument",
        ("These functions sort by the value that they aggregate, which SQL writes as WITHIN GROUP; any other order is "
         "undefined. A consumer that drops the order hides a mistake; one that follows it aggregates the sort key "
         "instead of the argument."),
    ),
    (
        "DISTINCT_ORDER_OUTSIDE", "error", "error",
        "{name} is over distinct values, but is ordered by an expression that is not one of its arguments",
        "sort by the arguments, or use the invocation ALL",
        ("The specification does not define the position of a merged value if its rows have different sort keys. "
         "PostgreSQL, DuckDB and Trino refuse it as well. A consumer that continues uses the key of an arbitrary row."),
    ),
    (
        "MEASURE_FILTER_NOT_SUPPORTED", "error", "error",
        "{name} does not support a filter: {reason}",
        "remove the filter of the measure",
        ("Only rows for which the filter is true are aggregated (specification, Aggregate Operation). The result of "
         "this function depends on the group and not on its rows, so a filter has no meaning. A consumer that drops "
         "the filter returns a value that the plan excludes."),
    ),
    (
        "GROUPING_ARGUMENT", "error", "error",
        "argument {position} of {name} is not one of the aggregate's grouping expressions",
        "use grouping expressions of the same aggregate, at most {most}",
        ("grouping() returns which keys a grouping set excludes, so its arguments are grouping expressions of the "
         "same aggregate. For any other argument the result is undefined. Consumers that return 0 present a subtotal "
         "as a group."),
    ),
    (
        "PHASE_UNSPECIFIED", "warning", "error",
        "{name} does not state its phase; the complete aggregate is computed",
        "set the phase to INITIAL_TO_RESULT",
        ("The phase is required, and an unset phase is documented to mean the merge of intermediate states "
         "(specification, Aggregate Functions). DataFusion, DuckDB and substrait-python do not set it and mean the "
         "complete aggregate, which is what is computed here. Read literally, the plan would read rows as "
         "intermediate states."),
    ),
    (
        "PHASE_NOT_SUPPORTED", "error", "error",
        "{name} has phase {phase}, but {reason}",
        "set the phase to INITIAL_TO_RESULT",
        ("Partial phases return or merge the intermediate state of a function in the intermediate type of its "
         "declaration (specification, Aggregate Functions). This state has no such form, or the type rounds it, so "
         "that two phases would not give the exact result of one. A consumer that ignores the phase averages averages "
         "and counts counts."),
    ),
    (
        "MEASURE_FILTER_NOT_BOOLEAN", "error", "error",
        "the filter of {name} has type {type}, not boolean",
        "write a filter whose type is boolean",
        ("The filter of a measure is boolean, and a row counts if it is true (specification, Aggregate Operation). A "
         "consumer that accepts other types decides for itself which values are true."),
    ),
    (
        "OUTPUT_TYPE_MISSING", "warning", "error",
        "{name} declares no output type; {type} is derived",
        "declare the output type",
        ("A measure declares the type of its result, exactly as the declaration of the function derives it "
         "(specification, Aggregate Functions). Without it every consumer derives its own type, and sums of decimals "
         "differ in their digits."),
    ),
    (
        "OUTPUT_TYPE_DIFFERS", "info", "error",
        "{name} declares {declared}, but its arguments give {derived}; the exact value is converted",
        "declare {derived}",
        ("The declared type must be the type that the declaration of the function derives (specification, Aggregate "
         "Functions). Here the exact value is rounded once to the declared type. Consumers that compute in the "
         "declared type overflow or lose digits on the way."),
    ),
    (
        "OUTPUT_TYPE_NOT_SUPPORTED", "error", "error",
        "the result of {name} of {argument} cannot be converted to {declared}",
        "declare {derived}",
        ("The declared type must be the type that the declaration of the function derives (specification, Aggregate "
         "Functions). The result cannot be converted to the declared type, so the plan was written for another "
         "function or other columns."),
    ),
    (
        "OUTPUT_NULLABILITY", "warning", "error",
        "{name} declares {declared}, but its result is null if a group has no values; the column is nullable",
        "declare the output type nullable",
        ("A function such as sum is null for a group without non-null values, and its declaration says so regardless "
         "of its arguments (specification, Aggregate Functions). A consumer that relies on the plan returns 0, or the "
         "undefined value under the null."),
    ),
    (
        "SIGNATURE_UNKNOWN", "warning", "error",
        "{urn} does not declare {name}",
        "declare one of its signatures: {known}",
        ("A function is declared under the name and the argument types of its extension (specification, Extensions). "
         "The call is bound by its name and its actual arguments. A consumer that looks up the declared name finds "
         "nothing, or another implementation with a similar name."),
    ),
    (
        "FUNCTION_DEPRECATED", "info", "warning",
        "{name} is deprecated since release {since} of the specification",
        "{instead}",
        ("The extension marks this form as deprecated, and a later release may remove it (specification, Extensions). "
         "It is still computed with its original meaning. A consumer of a later release may not find the function."),
    ),
    (
        "ARGUMENT_COUNT", "error", "error",
        "{function} takes {needed}, {count} given",
        "{function} takes {takes}",
        ("The number of arguments must match an implementation (specification, Scalar Functions). A consumer that "
         "ignores an extra argument, or adds one, computes another function."),
    ),
    (
        "ENUM_ARGUMENT_INVALID", "error", "error",
        "argument {argument} of {function} is {word}, which is not a valid word",
        "write one of: {words}",
        ("An enumeration argument is one of the words of its declaration, in upper or lower case (specification, "
         "Scalar Functions). It selects what is computed, such as the deviation of a sample or of a population. A "
         "consumer that uses a default for an unknown word computes the other one."),
    ),
    (
        "OPTION_NO_PREFERENCE", "error", "error",
        "option {option} of {function} has no preference",
        "add a preference, one of: {known}, or remove the option",
        ("An option lists at least one preference, and the first one that a consumer supports applies (specification, "
         "Option Preference). Without a preference the option has no value."),
    ),
    (
        "PHASE_NOT_DECOMPOSABLE", "error", "error",
        "{name} has phase {phase}, but {declared} is declared without an intermediate result",
        "set the phase to INITIAL_TO_RESULT",
        ("A function whose declaration has no intermediate type is computed in one step (specification, Aggregate "
         "Functions, Decomposable). It has no state that a first step could pass on. A consumer that merges results "
         "instead returns medians of medians and deviations of deviations."),
    ),
    (
        "ORDER_MISSING", "info", "warning",
        "{name} depends on the order of rows, but has no sorts; {taken}",
        "add sorts to the measure",
        ("Without sorts the order of the rows of a measure is undefined (specification, Aggregate Functions). Here "
         "the order depends on the values only. In other systems the result depends on how rows are read and split, "
         "and differs from run to run."),
    ),
    (
        "COMPARISON_FUNCTION_NOT_SUPPORTED", "error", "error",
        "{name} is ordered by the comparison function {function}, which is not supported",
        "sort ascending or descending",
        ("A sort field may name a function that compares two values instead of a direction (specification, Sort "
         "Operation). A limit of this program: such functions are not called. A consumer that sorts by the natural "
         "order of the values returns another order."),
    ),
    (
        "MEASURE_FILTER_CONSTANT", "warning", "warning",
        "the filter of {name} is the constant {value}: {effect}",
        "remove the filter, or correct the condition",
        ("Only rows for which the filter is true are aggregated (specification, Aggregate Operation). A constant "
         "selects all rows or none, which is rarely intended. Usually a part of the condition was lost when the plan "
         "was written."),
    ),
    (
        "MEASURE_DUPLICATE", "info", "info",
        "{name} computes the same as measure {other} of this aggregate",
        "read the column of measure {other} twice, with an output mapping",
        ("The specification does not forbid it, and the result is correct. Here both measures share their state; "
         "other consumers compute it twice. Usually it is a mistake, and the second measure was intended for another "
         "column."),
    ),
    (
        "KEY_TYPE_FLOAT", "info", "info",
        ("rows are grouped by values of type {type}: -0.0 and 0.0 are one group, all NaNs are one group, and numbers "
         "that differ in the last digit are two groups"),
        "group by an integer, a decimal or a rounded value",
        ("The specification does not define which floats are equal as keys. Here NaNs are one group, and so are -0.0 "
         "and 0.0. A system that compares bits makes several groups of them. Values that are computed in different "
         "orders differ in their last digit in every system."),
    ),
    (
        "WINDOWS_SEVERAL", "error", "error",
        "the aggregate is grouped by {count} hopping or session windows; at most one is supported",
        "group by one window in this aggregate, and by the other window in another aggregate",
        ("A rule of extension substrait_agg:functions_windows: with several windows every pair of them would be a "
         "group, and sessions would depend on other windows. No such meaning is defined."),
    ),
    (
        "SESSION_GROUPING_SETS", "error", "error",
        "an aggregate that groups by session has {count} grouping sets; it must have one",
        "write one aggregate per grouping set, and a union of their results",
        ("A limit of this program: sessions depend on the other grouping expressions, so every grouping set has its "
         "own sessions. A consumer that computes them once returns wrong sessions for all other sets."),
    ),
    (
        "SESSION_ARRIVAL", "error", "error",
        ("{name} has no order and so depends on the arrival of rows, which is not stored in an aggregate that groups "
         "by a session"),
        "give the measure an order, for example by the time",
        ("A limit of this program: when the bounds of a session move, all its rows are retracted and inserted again, "
         "in another order. The order in which they came from the source is then lost."),
    ),
    (
        "KEY_TYPE_NESTED", "info", "info",
        ("rows are grouped by values of type {type}: values are one group if all their parts are equal, and nested "
         "nulls are equal"),
        "group by the parts that identify a row",
        ("The specification does not define when nested values are equal as keys. Here two nested nulls are equal, as "
         "two null keys are. A system that compares nested values as SQL's = does makes a group for each null."),
    ),
    (
        "GROUPING_SET_DUPLICATE", "info", "warning",
        "grouping set {ordinal} has the same keys as set {other}; its rows occur twice, with different indexes",
        "remove one of the two sets",
        ("Equal grouping sets are allowed, and each returns its rows with its own index (specification, Aggregate "
         "Operation). A consumer that merges them returns these rows once, others return them twice. Adding up the "
         "rows counts them twice."),
    ),
    (
        "GROUPING_EXPRESSION_DUPLICATE", "info", "warning",
        "grouping expression {ordinal} is the same as {other}; both are output columns",
        "refer to expression {other} from the grouping sets",
        ("Every grouping expression is an output column (specification, Aggregate Operation). Some producers and "
         "consumers merge equal ones, which moves every column after them."),
    ),
)  # fmt: skip
