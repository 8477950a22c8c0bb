"""List problems of expressions and function calls that binding reports."""

from __future__ import annotations

from substrait_agg.problem_kinds.kind import ProblemKind, kinds

EXPRESSIONS: tuple[ProblemKind, ...] = kinds(
    "expressions",
    (
        "TYPE_NOT_SUPPORTED", "error", "error",
        "values of type {type} are not supported",
        "use {instead} instead: cast a column in the source, cast a computed value in the query",
        ("A limit of this program: values of this type cannot be read, compared or stored. Another type could change "
         "values, so the plan must choose it."),
    ),
    (
        "TIME_DIGITS_NOT_KEPT", "warning", "error",
        "values of type {type} are stored in microseconds",
        "use a type of at most 6 digits of a second",
        ("Types of time have up to 12 digits of a second (specification, Type Classes); Spark has 6. Sources with "
         "finer values are refused, so no value is truncated. Consumers that truncate put different instants into one "
         "group."),
    ),
    (
        "TIME_TOO_FINE", "error", "error",
        "the value of type {type} has digits finer than a microsecond: {ticks} ticks",
        "write a value of whole microseconds",
        ("Types of time have up to 12 digits of a second (specification, Type Classes); Spark has 6. Truncated, the "
         "constant would be another value, and a comparison with it would be true for other rows."),
    ),
    (
        "FUNCTION_UNDECLARED", "error", "error",
        "the plan declares no function for {name}",
        "declare the function among the plan's extensions",
        ("A call names its function by an anchor that the plan declares among its extensions (specification, "
         "Extensions). An anchor without a declaration does not name a function. A consumer with a table of its own "
         "calls the function with that number."),
    ),
    (
        "FUNCTION_NAME_BARE", "warning", "error",
        "function {name} is declared without {what}; it is resolved by its name",
        "declare it under the URN of its extension and with its signature, such as sum:i64",
        ("A function is identified by the URN of its extension and by its name with the types of its arguments, such "
         "as sum:i64 (specification, Extensions). A bare name can be ambiguous: count returns an i64 in one standard "
         "extension and a decimal in another."),
    ),
    (
        "FUNCTION_URN_UNKNOWN", "error", "error",
        "function {name} belongs to the unknown extension {urn}",
        "use a function of the standard extensions, or register the measure in this program first",
        ("The extension defines the meaning of a function (specification, Extensions). A function of the same name in "
         "another extension may compute something else, so a name is not enough."),
    ),
    (
        "USER_MEASURE_FAILED", "error", "error",
        "the result type of {name} is not known: {reason}",
        "correct the class that computes the measure",
        ("A rule of this program: the class that is registered for a measure states the type of its result when the "
         "plan is validated. Otherwise an error in the class would appear in the middle of a run."),
    ),
    (
        "FUNCTION_URN_DIFFERS", "warning", "error",
        "function {name} is declared under {urn}, but the standard declares it under {expected}",
        "declare the function under {expected}",
        ("The URN is part of the identity of a function (specification, Extensions). Some producers write the URN of "
         "another standard extension, so the function is resolved by its name. A consumer that uses the URN finds "
         "nothing, or a function with another result type."),
    ),
    (
        "SIGNATURE_DIFFERS", "warning", "error",
        "function {name} is called with ({types}), which does not match its declared signature",
        "declare the signature of the call, or convert the arguments to it",
        ("The types in the declared name select the implementation (specification, Extensions) and with it the type "
         "of the result. The call is bound by the types of its actual arguments. A consumer that uses the name reads "
         "the arguments as other types."),
    ),
    (
        "SCALAR_FUNCTION_UNKNOWN", "error", "error",
        "scalar function {name} is not known",
        "compute the column in the source, or use known functions",
        ("A limit of this program, or a misspelt name. Rows cannot be computed without the function, and no other "
         "function replaces it."),
    ),
    (
        "SCALAR_FUNCTION_NOT_SUPPORTED", "error", "error",
        "scalar function {name} is not supported: {reason}",
        "compute the column in the source, or use supported functions",
        ("The standard declares the function, but Spark cannot compute exactly what the declaration says. A slightly "
         "different result would go unnoticed in every group, so the function is refused."),
    ),
    (
        "SPARK_EXPRESSION_INVALID", "error", "error",
        "the expression that Spark computes is not valid: {reason}",
        "write spark_sql with a constant text, the columns that it calls c0, c1, ..., and an output type",
        ("spark_sql is a function of an extension of this project. Its meaning is its text and its declared type, so "
         "both must be in the plan."),
    ),
    (
        "FUNCTION_ARGUMENTS", "error", "error",
        "{function} does not take ({types})",
        "{function} takes {takes}",
        ("Number and types of the arguments must match one implementation (specification, Scalar Functions). A "
         "consumer that converts or drops arguments on its own chooses one of several meanings."),
    ),
    (
        "ARGUMENTS_PROMOTED", "info", "error",
        "{function} is called with ({types}); the arguments are converted to {type}",
        "convert the arguments to one type in the plan",
        ("There are no implicit conversions: a plan contains a cast wherever types differ (specification, Cast "
         "Expression). Producers omit it between numbers. Here floats take precedence over decimals, and decimals "
         "over integers. As a float, an integer beyond 2^53 loses digits, and a comparison may change."),
    ),
    (
        "TEXT_READ_AS_TIME", "warning", "error",
        "{what} has the text {text} together with values of type {type}; it is read as {value}",
        "write a literal of type {type}, or cast the text to it",
        ("There are no implicit conversions: a plan contains a cast wherever types differ (specification, Cast "
         "Expression). SQL allows a text literal in place of a date or time, and some producers pass it on unchanged. "
         "A consumer that compares texts sorts 1994-1-1 after 1994-02-01; one that casts an instant to a date loses "
         "its time of day."),
    ),
    (
        "TIME_TEXT_INVALID", "error", "error",
        "the text {text} cannot be compared with values of type {type}: {reason}",
        "write a literal of type {type}, or a text in ISO 8601 form",
        ("A text that is compared with dates or times is read as one of them if it is in ISO 8601 form (a habit of "
         "SQL; the specification has no implicit conversions). This text is not in that form, or has a part that the "
         "other values do not have and that cannot be dropped."),
    ),
    (
        "FUNCTION_MEANING", "warning", "error",
        "{function} is computed as {meaning}, as {producer} intends",
        "call {meaning} instead",
        ("The extension defines the meaning of a name (specification, Extensions). This producer gives the function "
         "another meaning, such as a least() that skips nulls, and computes that meaning itself. Read literally, the "
         "plan returns null where the producer returns a value."),
    ),
    (
        "WINDOW_DURATION_INVALID", "error", "error",
        "{function} has an invalid {argument} {value}: {reason}",
        "write a constant interval of days and smaller units, greater than zero (an offset may have any sign)",
        ("The windows of a plan are the same for all rows (extension substrait_agg:functions_windows): their "
         "durations are constants in whole units of the time. A month has no fixed number of days, and a duration "
         "finer than the time puts the bounds of windows between two values."),
    ),
    (
        "WINDOWS_TOO_MANY", "error", "error",
        "each row is in up to {count} windows; the limit is {limit}",
        "choose a longer slide, or a shorter size",
        ("A limit of this program: a row belongs to every hopping window that contains its time, and counts in one "
         "group per window. A slide that is a tiny part of the size, often a wrong unit, multiplies the input by that "
         "number."),
    ),
    (
        "WINDOW_NOT_A_KEY", "error", "error",
        "{function} is not allowed here: it must be a whole grouping expression",
        ("group by the call itself, and compute with the window column of the aggregate; tumble, tumble_start and "
         "tumble_end are allowed anywhere"),
        ("A hopping or session window is not a value of a row (extension substrait_agg:functions_windows): a row is "
         "in several hopping windows, and its session depends on the rows around it. Only an aggregate that groups by "
         "the window defines it. A projection below the aggregate may compute it for this purpose only."),
    ),
    (
        "FUNCTION_NOT_SCALAR", "error", "error",
        "{name} is an aggregate function; an expression needs a scalar function",
        "compute it as a measure of an aggregate, or use a scalar function",
        ("Scalar, aggregate and window functions are declared separately, and an expression calls a scalar function "
         "(specification, Scalar Functions). An aggregate function in an expression has no rows to aggregate; it "
         "belongs into an aggregate relation below."),
    ),
    (
        "OPTION_ASSUMED", "info", "info",
        "{function} does not set the option {option}; {value} is used, as {producer} computes it",
        "set the option {option} explicitly",
        ("If a plan does not set an option, a consumer may choose its value (specification, Option Preference). Here "
         "the value that this producer computes with is used, so the result is the intended one. Other consumers may "
         "choose another value."),
    ),
    (
        "OPTION_UNKNOWN", "error", "error",
        "{function} has no option {option}",
        "remove the option; the known options are: {known}",
        ("A consumer must refuse an option that it does not know (specification, Option Preference). Options control "
         "overflow, rounding and nulls: ignoring one changes the result."),
    ),
    (
        "OPTION_NOT_STANDARD", "info", "error",
        "the standard declares no option {option} for {function}",
        "leave the option out, or validate in lenient mode",
        ("An option changes the value of a function, and a consumer must refuse an option that it does not know "
         "(specification, Option Preference). IGNORE_NULLS of window functions is honoured here, as the standard has no "
         "other form for it. Other consumers refuse such a plan."),
    ),
    (
        "OPTION_VALUE_NOT_SUPPORTED", "error", "error",
        "none of the preferences of option {option} of {function} is supported: {values}",
        "prefer one of: {known}",
        ("The first preference that a consumer supports applies; if it supports none, it must refuse the plan "
         "(specification, Option Preference). A consumer that continues overflows, rounds or treats nulls in a way "
         "that the plan excludes."),
    ),
    (
        "RESULT_TYPE_MISSING", "warning", "error",
        "{function} declares no result type; {type} is derived",
        "declare the result type",
        ("A call declares the type of its result, as the declaration of the function derives it (specification, "
         "Scalar Functions). Without it every consumer derives its own type, and decimals differ in their digits."),
    ),
    (
        "RESULT_TYPE_DIFFERS", "info", "error",
        "{function} declares {declared}, but its arguments give {derived}; the value is converted",
        "declare {derived}",
        ("The declared type must be the type that the declaration of the function derives (specification, Scalar "
         "Functions). Here the value is converted to the declared type. A consumer that relies on the plan reads the "
         "bytes of one type as another; one that does not produces another schema."),
    ),
    (
        "RESULT_TYPE_LOSSY", "warning", "error",
        "{function} declares {declared}, but its arguments give {derived}; the value loses digits",
        "declare {derived}, or convert the value with a cast",
        ("The declared type must be the type that the declaration of the function derives (specification, Scalar "
         "Functions, Aggregate Functions). Here the value is converted to the declared type, which has fewer digits "
         "after the point: 1.5 becomes 1 as an integer. A consumer that computes in the derived type keeps them."),
    ),
    (
        "RESULT_NULLABILITY", "warning", "error",
        "{function} declares {declared}, but its result can be null; the column is nullable",
        "declare the type nullable",
        ("The declaration of the function and the nullability of all arguments, constants included, decide whether "
         "the result is nullable (specification, Scalar Functions). A consumer that relies on the plan skips the null "
         "check and returns the undefined value under the null."),
    ),
    (
        "NULL_BY_OPTION", "info", "info",
        "{function} declares {declared}, but with the option {option} its result can be null; the column is nullable",
        "if nulls are not wanted, prefer another value of the option",
        ("The declared type is the one that the declaration of the function derives, which ignores options "
         "(specification, Scalar Functions). The type says that the result is never null, and the option makes it "
         "null. A consumer that relies on the type returns the undefined value under the null."),
    ),
    (
        "RESULT_TYPE_OF_COLUMN", "warning", "error",
        "{function} declares {declared}, the type of the column that it compares; its result has type {derived}",
        "declare {derived}",
        ("The declared type must be the type that the declaration of the function derives (specification, Scalar "
         "Functions); a comparison returns a boolean. This producer declares the type of the compared column. A "
         "consumer that relies on it finds a condition that is not boolean."),
    ),
    (
        "RESULT_TYPE_NOT_SUPPORTED", "error", "error",
        "{function} declares {declared}, but {derived} cannot be converted to it",
        "declare {derived}",
        ("The declared type must be the type that the declaration of the function derives (specification, Scalar "
         "Functions). No conversion exists between the two types, so the plan was written for another function or "
         "other columns."),
    ),
    (
        "CAST_NULLABILITY", "warning", "error",
        "the cast declares {declared}, but its result can be null: {reason}; the value is nullable",
        "cast to a nullable type",
        ("A cast converts null to null, and a cast that returns null on failure adds nulls (specification, Cast "
         "Expression). A consumer that relies on the declared type skips the null check and returns the undefined "
         "value under the null."),
    ),
    (
        "CAST_FAILURE_MISSING", "warning", "error",
        "the cast does not say what happens if a value cannot be converted; such a value fails the run",
        "set the failure behavior: throw, or return null",
        ("A cast says whether a value that cannot be converted becomes null or an error (specification, Cast "
         "Expression); unspecified is only the default of the enumeration. A consumer that assumes null changes "
         "values where another one fails."),
    ),
    (
        "CAST_NOT_SUPPORTED", "error", "error",
        "{source} cannot be converted to {target}",
        "convert through another type, or convert in the source",
        ("The specification has a cast expression, but does not list the allowed types (Cast Expression). Conversions "
         "that systems define differently, or not at all, are refused."),
    ),
    (
        "EXPRESSION_TOO_LARGE", "error", "error",
        "the switch compares its match value in every case, which expands to more than {limit} expressions",
        "compute the match value in a projection below, and match its column",
        ("A limit of this program: a switch compares its match value once per case, and nested switches multiply. A "
         "few kilobytes of plan could expand to more expressions than fit into memory."),
    ),
    (
        "BRANCHES_CONVERTED", "info", "error",
        "a value of type {type} is combined with values of other types; it is converted to {common}",
        "cast the values to one type in the plan",
        ("All results of an if-then or switch, and the value and options of an IN list, have one type (specification, "
         "If Expression, Switch Expression, Or List Equality Expression). Here they are converted to a common type. "
         "A consumer that uses the type of the first value truncates the others or fails on them."),
    ),
    (
        "CASE_REPEATED", "warning", "warning",
        "case {case} of the switch has the same value as case {earlier}; it never applies",
        "remove the case, or correct its value",
        ("The first case that matches gives the value (specification, Switch Expression), so a second case with the "
         "same value never applies. Most likely another value was intended. Consumers that build a table of the cases "
         "may use the last one."),
    ),
    (
        "IN_LIST_EMPTY", "warning", "error",
        "the IN list has no options; it is false for every row",
        "write the options, or remove the condition",
        ("An IN list has one or more options (specification, Or List Equality Expression), and SQL has no empty IN "
         "list. Here it is false, also for null. Other consumers may return null for a null value, or fail. Usually "
         "the options were lost when the plan was written."),
    ),
    (
        "BRANCH_TYPES_DIFFER", "error", "error",
        "the values have no common type: {types}",
        "cast the values to one type",
        ("All results of an if-then or switch, and the value and options of an IN list, have one type (specification, "
         "If Expression, Switch Expression, Or List Equality Expression). A consumer that uses the type of the first "
         "value turns the others into null, fails on them, or changes them."),
    ),
    (
        "SUBQUERY_NOT_SUPPORTED", "error", "error",
        "the subquery cannot be written as a join: it is or reads an outer column {place}",
        ("write the subquery as a join, or move it into a projection: subqueries read outer columns in filters; below an "
         "aggregate these are equalities"),
        ("A limit of this program: subqueries become joins. An outer column of the next query around is read by the join, "
         "so a condition on it can be moved up to there, but not out of a set operation, a fetch or the padded input of "
         "an outer join."),
    ),
    (
        "SUBQUERY_COLUMNS", "error", "error",
        "the subquery has {count} columns instead of {wanted}",
        "project the subquery to one column, or for IN to one per value",
        ("A scalar subquery has one column, and IN compares each value with one (specification, Subqueries). A consumer "
         "that takes the first column compares the wrong values."),
    ),
    (
        "SUBQUERY_REFERENCE_INVALID", "error", "error",
        "the reference {reason}",
        ("count the subqueries between the reference and the column, from 1, or name the anchor (rel_anchor) of the "
         "relation whose expression has the subquery"),
        ("An outer reference names the number of subquery boundaries up to the row that it reads (specification, Field "
         "References), or the anchor of the relation of this row. Outside of a subquery, and beyond the outermost one, there "
         "is no such row."),
    ),
)  # fmt: skip
