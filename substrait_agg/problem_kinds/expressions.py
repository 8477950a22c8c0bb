"""List problems of expressions and function calls that binding reports."""

from __future__ import annotations

from substrait_agg.problem_kinds.kind import ProblemKind, kinds

EXPRESSIONS: tuple[ProblemKind, ...] = kinds(
    "expressions",
    (
        "TYPE_NOT_SUPPORTED", "error", "error",
        "values of type {type} are not supported",
        "use {instead} in its place: a column is cast in the source, a computed value in the query",
        ("A limit of this program: values of this type cannot be read, compared or kept. Another type in its place "
         "could change values, so the plan has to choose it."),
    ),
    (
        "TIME_DIGITS_NOT_KEPT", "warning", "error",
        "values of type {type} are kept in microseconds",
        "use a type of at most 6 digits of a second",
        ("Types of time have up to 12 digits of a second (specification, Type Classes); Spark keeps 6. Sources with "
         "finer values are refused, so nothing is cut; consumers that cut them put different instants into one group."),
    ),
    (
        "TIME_TOO_FINE", "error", "error",
        "the value of type {type} has digits finer than a microsecond: {ticks} ticks",
        "write a value of whole microseconds",
        ("Types of time have up to 12 digits of a second (specification, Type Classes); Spark keeps 6. With its last "
         "digits cut off, the constant would be another one, and a comparison with it true for other rows."),
    ),
    (
        "FUNCTION_UNDECLARED", "error", "error",
        "the plan declares no function for {name}",
        "declare the function among the plan's extensions",
        ("A call names its function by an anchor that the plan declares among its extensions (specification, "
         "Extensions). An anchor without a declaration means no function at all; a consumer with a table of its own "
         "calls whatever has that number there."),
    ),
    (
        "FUNCTION_NAME_BARE", "warning", "error",
        "function {name} is declared without {what}; it is taken by its name",
        "declare it under the URN of its extension, with its signature, such as sum:i64",
        ("A function is named by the URN of its extension and by its name with the types of its arguments, such as "
         "sum:i64 (specification, Extensions). A bare name can mean several: count gives an i64 in one extension of "
         "the standard and a decimal in another."),
    ),
    (
        "FUNCTION_URN_UNKNOWN", "error", "error",
        "function {name} belongs to extension {urn}, which is not known",
        "use a function of the standard extensions, or register the measure in this program first",
        ("A function means what its extension says (specification, Extensions). One of the same name elsewhere may "
         "compute something else, so a name is not enough."),
    ),
    (
        "USER_MEASURE_FAILED", "error", "error",
        "the type of {name} is not known: {reason}",
        "correct the class that computes the measure",
        ("A rule of this program: the class that a program registers for a measure says which type its result has, and "
         "is asked when the plan is validated. An error in it would otherwise come up in the middle of a run."),
    ),
    (
        "FUNCTION_URN_DIFFERS", "warning", "error",
        "function {name} is declared under {urn}, the standard has it under {expected}",
        "declare the function under {expected}",
        ("The URN is part of a function's identity (specification, Extensions); producers are known to write a "
         "neighbouring one, so the function is taken by its name. A consumer that goes by the URN finds nothing, or a "
         "function with another result type."),
    ),
    (
        "SIGNATURE_DIFFERS", "warning", "error",
        "function {name} is called with ({types})",
        "declare the signature of the call, or convert the arguments to it",
        ("The types in the declared name say which implementation is called (specification, Extensions), and with it "
         "the type of the result. The call is bound by the types that it is really given; a consumer that believes the "
         "name reads the arguments as other types."),
    ),
    (
        "SCALAR_FUNCTION_UNKNOWN", "error", "error",
        "scalar function {name} is not known",
        "compute the column in the source, or write it with known functions",
        ("A limit of this program, or a misspelt name. Without the function its rows cannot be computed, and nothing "
         "is put in its place."),
    ),
    (
        "SCALAR_FUNCTION_NOT_SUPPORTED", "error", "error",
        "scalar function {name} is not supported: {reason}",
        "compute the column in the source, or write it with supported functions",
        ("The standard declares the function, and Spark cannot compute exactly what the declaration says. An answer that "
         "is nearly right would stay unnoticed in every group, so none is given."),
    ),
    (
        "FUNCTION_ARGUMENTS", "error", "error",
        "{function} does not take ({types})",
        "{function} takes {takes}",
        ("Number and types of the arguments have to be those of one implementation (specification, Scalar Functions). "
         "A consumer that converts or drops arguments on its own chooses one of several meanings."),
    ),
    (
        "ARGUMENTS_PROMOTED", "info", "error",
        "{function} is given ({types}); they are converted to {type}",
        "convert the arguments to one type in the plan",
        ("There are no implicit conversions: a plan contains a cast wherever types differ (specification, Cast "
         "Expression). Producers leave it out between numbers; here floats then win over decimals and decimals over "
         "integers. As a float, an integer beyond 2^53 loses digits, and the comparison may change."),
    ),
    (
        "TEXT_READ_AS_TIME", "warning", "error",
        "{what} has the text {text} beside values of type {type}; it is read as {value}",
        "write a literal of type {type}, or cast the text to it",
        ("There are no implicit conversions: a plan contains a cast wherever types differ (specification, Cast "
         "Expression). SQL lets a text literal stand for a date or time, and some producers pass it on as it is. A "
         "consumer that compares texts instead puts 1994-1-1 behind 1994-02-01, one that casts a point in time to a date "
         "loses its time of day."),
    ),
    (
        "TIME_TEXT_INVALID", "error", "error",
        "the text {text} cannot be compared with values of type {type}: {reason}",
        "write a literal of type {type}, or a text in the form of ISO 8601",
        ("A text beside dates or times is read as one of them where ISO 8601 says which (a habit of SQL; the "
         "specification has no implicit conversions). This one is none, or has a part that the other values do not have: "
         "without that part it would be another value."),
    ),
    (
        "FUNCTION_MEANING", "warning", "error",
        "{function} is computed as {meaning}, as {producer} means it",
        "call it {meaning}",
        ("A name means what its extension says (specification, Extensions). This producer gives the function another "
         "meaning, such as a least() that passes over nulls, and computes that itself; read by the letter the plan "
         "gives null where the producer gives a value."),
    ),
    (
        "WINDOW_DURATION_INVALID", "error", "error",
        "{function} cannot have the {argument} {value}: {reason}",
        "write a constant interval of days and smaller units, greater than zero (an offset may be any)",
        ("The windows of a plan are the same for all rows (extension substrait_agg:functions_windows): their durations are "
         "constants in whole units of the time. A month is no number of days, and a duration finer than the time would put "
         "the borders of windows between two values of it."),
    ),
    (
        "WINDOWS_TOO_MANY", "error", "error",
        "each row falls in up to {count} windows; at most {limit} are computed",
        "choose a longer slide, or a shorter size",
        ("A limit of this program: a row belongs to every hopping window that holds its time, and counts in a group for "
         "each. A slide that is a tiny part of the size, often a mistaken unit, multiplies the input by that."),
    ),
    (
        "WINDOW_NOT_A_KEY", "error", "error",
        "{function} is called where it is not the whole of a grouping expression",
        ("group by the call itself, and compute what you need of the window from the aggregate's column; tumble, "
         "tumble_start and tumble_end can be called anywhere"),
        ("A hopping or session window is no value of a row (extension substrait_agg:functions_windows): a row is in several "
         "hopping windows, and its session depends on the rows around it. Only an aggregate that groups by the window can "
         "give it a meaning; a projection below it may compute it for nothing else."),
    ),
    (
        "FUNCTION_NOT_SCALAR", "error", "error",
        "{name} is an aggregate function; an expression needs a scalar function",
        "compute it as a measure of an aggregate, or use a scalar function",
        ("Scalar, aggregate and window functions are declared apart, and an expression calls a scalar function "
         "(specification, Scalar Functions). An aggregate inside an expression has no rows to aggregate; it belongs "
         "into an aggregate relation below."),
    ),
    (
        "OPTION_ASSUMED", "info", "info",
        "{function} does not set option {option}; {value} is taken, as {producer} computes it",
        "set the option {option} to the value that is meant",
        ("Where a plan does not set an option, a consumer may choose (specification, Option Preference). What this "
         "producer computes itself is taken, so that the result is the one that was meant; other consumers may choose "
         "otherwise."),
    ),
    (
        "OPTION_UNKNOWN", "error", "error",
        "{function} has no option {option}",
        "remove the option; known are: {known}",
        ("A consumer has to refuse an option that it does not know (specification, Option Preference). Options decide "
         "about overflow, rounding and nulls: to ignore one is to compute something else."),
    ),
    (
        "OPTION_VALUE_NOT_SUPPORTED", "error", "error",
        "none of the preferences of option {option} of {function} is supported: {values}",
        "prefer one of: {known}",
        ("The first preference that a consumer supports holds, and if there is none it has to refuse the plan "
         "(specification, Option Preference). A consumer that goes on anyway overflows, rounds or treats nulls as the "
         "plan says it must not."),
    ),
    (
        "RESULT_TYPE_MISSING", "warning", "error",
        "{function} declares no result type; {type} is derived",
        "declare the result type",
        ("A call declares the type of its result, as the function's declaration derives it (specification, Scalar "
         "Functions). Without it every consumer derives its own, and decimals come out with different digits."),
    ),
    (
        "RESULT_TYPE_DIFFERS", "info", "error",
        "{function} declares {declared}, its arguments give {derived}; the value is converted",
        "declare the type that the function's declaration derives",
        ("The declared type has to be the one that the function's declaration derives (specification, Scalar "
         "Functions). Here the value is converted to it; a consumer that believes the plan reads the bytes of one type "
         "as another, one that does not gives another schema."),
    ),
    (
        "RESULT_NULLABILITY", "warning", "error",
        "{function} declares {declared}, but a nullable type is derived; the column is nullable",
        "declare the type nullable",
        ("Whether a result is nullable follows from the declaration's nullability and the types of the arguments, constants "
         "among them (specification, Scalar Functions). A consumer that believes the plan skips the null check and shows whatever value lies "
         "under the null."),
    ),
    (
        "NULL_BY_OPTION", "info", "info",
        "{function} declares {declared}, but the option {option} gives null; the column is nullable",
        "prefer another value of the option where null is not wanted",
        ("The declared type is the one that the function's declaration derives, which does not look at options "
         "(specification, Scalar Functions); so it says that the result is never null, and an option that it is. A "
         "consumer that believes the type shows whatever value lies under the null."),
    ),
    (
        "RESULT_TYPE_OF_COLUMN", "warning", "error",
        "{function} declares {declared}, the type of the column that it compares; its result is {derived}",
        "declare {derived}",
        ("The declared type has to be the one that the function's declaration derives (specification, Scalar "
         "Functions); a comparison gives a boolean. This producer declares the type of the compared column. A consumer "
         "that believes it finds a condition that is no boolean."),
    ),
    (
        "RESULT_TYPE_NOT_SUPPORTED", "error", "error",
        "{function} declares {declared}, to which {derived} cannot be converted",
        "declare {derived}",
        ("The declared type has to be the one that the function's declaration derives (specification, Scalar "
         "Functions). There is no conversion between the two, so the plan was made for another function or other "
         "columns."),
    ),
    (
        "CAST_NULLABILITY", "warning", "error",
        "the cast declares {declared}, but null is possible: {reason}; the value is nullable",
        "cast to a nullable type",
        ("A cast changes null to null, and one that returns null on failure makes new ones (specification, Cast "
         "Expression). A consumer that believes the declared type skips the null check and shows whatever value lies "
         "under the null."),
    ),
    (
        "CAST_FAILURE_MISSING", "warning", "error",
        "the cast does not say what becomes of a value that cannot be converted; it stops the run",
        "set the failure behavior: throw, or return null",
        ("A cast says whether a value that cannot be converted gives null or an error (specification, Cast "
         "Expression); unspecified is only the default of the enumeration. A consumer that takes it for null changes "
         "values where another one stops."),
    ),
    (
        "CAST_NOT_SUPPORTED", "error", "error",
        "no conversion from {source} to {target}",
        "convert through another type, or in the source",
        ("The specification has a cast expression, but does not say between which types (Cast Expression). Conversions "
         "that systems define differently, or not at all, are refused here instead of guessed."),
    ),
    (
        "EXPRESSION_TOO_LARGE", "error", "error",
        "the switch compares what it matches in every case, which makes more than {limit} expressions",
        "compute the matched value in a projection below, and match its column",
        ("A limit of this program: a switch compares what it matches once per case, and switches inside that multiply. "
         "A few kilobytes of plan could become more expressions than fit into memory."),
    ),
    (
        "BRANCHES_CONVERTED", "info", "error",
        "a value of type {type} stands beside values of other types; it is converted to {common}",
        "cast the values to one type in the plan",
        ("All results of an if-then or switch, and the value and options of an IN list, have one type (specification, "
         "If Expression, Switch Expression, Or List Equality Expression). Here they are converted to a common one; a "
         "consumer that takes the type of the first value cuts or fails on the others."),
    ),
    (
        "CASE_REPEATED", "warning", "warning",
        "case {case} of the switch has the value of case {earlier}; it never applies",
        "remove the case, or write the value that is meant",
        ("The first case that matches gives the value (specification, Switch Expression), so a second one for the same "
         "value never does. Most likely another value was meant; consumers that build a table of the cases may take "
         "the last one."),
    ),
    (
        "IN_LIST_EMPTY", "warning", "error",
        "the IN list has no options; it is false for every row",
        "write the options, or remove the condition",
        ("An IN list has one or more options (specification, Or List Equality Expression), and SQL has no empty one. "
         "Here it is false, also for null; consumers may give null for a null value, or fail. Mostly the options were "
         "lost when the plan was made."),
    ),
    (
        "BRANCH_TYPES_DIFFER", "error", "error",
        "the values have no common type: {types}",
        "cast the values to one type",
        ("All results of an if-then or switch, and the value and options of an IN list, have one type (specification, "
         "If Expression, Switch Expression, Or List Equality Expression). A consumer that takes the type of the first "
         "one turns the others into null, fails on them, or changes them."),
    ),
)  # fmt: skip
