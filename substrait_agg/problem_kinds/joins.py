"""List problems of joins and fetches."""

from __future__ import annotations

from substrait_agg.problem_kinds.kind import ProblemKind, kinds

JOINS: tuple[ProblemKind, ...] = kinds(
    "relations",
    (
        "JOIN_TYPE_MISSING", "error", "error",
        "the join has no type",
        "set the type: inner, outer, left, right, semi, anti, single or mark",
        ("Every join has a type (specification, Join Operation). Unspecified is only the default of the enumeration. A "
         "consumer that assumes an inner join loses the rows without a match of every other type."),
    ),
    (
        "JOIN_CONDITION_MISSING", "info", "error",
        "the join has no condition; every two rows match",
        "write the literal true as the condition, or use a cross product",
        ("A join has a condition, which may be the literal true (specification, Join Operation). A missing one is read "
         "as true, which is what an optional condition means in the other join relations. If the condition was lost "
         "when the plan was written, the result has far too many rows."),
    ),
    (
        "JOIN_WITHOUT_KEY", "warning", "warning",
        "the join compares every row of one input with every row of the other; neither an equality nor a range connects them",
        ("compare columns of both inputs with =, <, <=, >, >= or BETWEEN, in the join or in a filter above it; a run fails "
         "once the smaller input has more than 10,000 different rows"),
        ("Rows of both inputs find each other by equal values, or by values in a range. Without either, a change of one "
         "row is compared with all rows of the other input, which is only fast if one input is small. Equalities and "
         "ranges are found in the conditions of joins and in filters above them, equalities also where every alternative "
         "of an OR has them. An input that never has more than one row needs none."),
    ),
    (
        "JOIN_KEYS_COUNT", "error", "error",
        "the join has {left} left keys and {right} right keys",
        "give every left key its right key, or write them as pairs in keys",
        ("The i-th left key is compared with the i-th right key (specification, Hash Equijoin Operator). A consumer that "
         "drops the rest joins by fewer keys and returns too many rows."),
    ),
    (
        "JOIN_KEY_TYPES", "error", "error",
        "join keys of type {left} and {right} cannot be compared",
        "compare keys of one type; convert one of them in a project below the join",
        ("Rows match if their keys are equal, and equality is defined for values of one type (specification, Comparison "
         "Functions). Numbers of different types, decimals of different scale, and texts of different kinds are "
         "converted. Other types have no common type, and maps have no equality."),
    ),
    (
        "JOIN_COMPARISON_MISSING", "error", "error",
        "the join key does not say how its values are compared",
        "set the comparison to equal or to is not distinct from",
        ("The comparisons differ in what they make of nulls (specification, Comparison Join Key). Unspecified is only the "
         "default of the enumeration; to assume one loses or invents matches of nulls."),
    ),
    (
        "JOIN_COMPARISON_NOT_SUPPORTED", "error", "error",
        "the join key is compared {comparison}, which is not supported",
        "compare keys with equal or with is not distinct from",
        ("A limit of this program: matches are found by looking up equal values. With the comparison might equal a null "
         "matches every row, and a custom function can call any two values equal."),
    ),
    (
        "JOIN_CONDITION_NOT_SUPPORTED", "error", "error",
        ("the join tests the condition {condition} with a function that it does not compute itself, and the condition "
         "or a key reads a column that has a map"),
        "compute the function in a projection below the join, and compare its result in the condition of the join",
        ("A limit of this program: the operators of outer, semi, anti, mark and single joins evaluate those conditions "
         "themselves whose functions give exactly Spark's results on Arrow columns. Another condition is a filter over "
         "an inner join, in whose rows the join finds its own by the columns that keys and condition read. Columns with "
         "maps cannot be compared. The condition of an inner join can use every function and every column."),
    ),
    (
        "JOIN_NOT_IN_UNCLEAR", "error", "error",
        ("{producer} writes NOT IN and NOT EXISTS as the same {kind} join; its condition can be null, and then they give "
         "different rows"),
        ("write NOT IN as an anti join on a = b OR (a = b) IS NULL, NOT EXISTS with IS NOT DISTINCT FROM or over required "
         "columns, or declare the compared columns required"),
        ("An anti join keeps the rows without a match (specification, Join Types). NOT IN keeps no row at all if the "
         "list has a null, and no row whose value is null. DataFusion computes NOT IN so, and writes a plan that does "
         "not say it. A consumer that reads such a plan literally returns rows that the query excludes."),
    ),
    (
        "JOIN_NOT_IN_SAME", "warning", "warning",
        ("{producer} writes NOT IN and NOT EXISTS as the same anti join; the compared columns are required, so both give "
         "the same rows"),
        "check that the compared columns are never null in the sources, as the plan declares",
        ("An anti join keeps the rows without a match (specification, Join Types), and NOT IN does so only if no compared "
         "value is null. The plan declares the columns required, which decides that both are the same. A source that "
         "has nulls in them fails its batch."),
    ),
    (
        "JOIN_FILTER_UNCLEAR", "error", "error",
        ("the join is not an inner join and has a post-join filter; releases before 0.91 do not say whether it applies to "
         "result rows or to matches"),
        "put the filter in a filter relation above the join, or into the condition of the join",
        ("Since 0.91 the post-join filter applies to result rows, and physical joins have a field for conditions of "
         "matches (specification, Join Operation). Before, producers wrote both here. For an outer join they differ: a "
         "condition of matches keeps the row and pads it with nulls, a filter removes it."),
    ),
    (
        "MERGE_JOIN_ORDER", "info", "info",
        "a merge join is read as the join of its keys; the order of its inputs has no effect",
        "no action is needed: the rows are those of the merge join",
        ("A merge join asks for inputs sorted by its keys (specification, Merge Equijoin Operator). The order is needed "
         "by the algorithm only. Here matches are looked up by key, so sorts below the join change nothing."),
    ),
    (
        "FETCH_WITHOUT_SORT", "warning", "warning",
        "the fetch has no sort below it; rows are selected in the ascending order of all their columns",
        "sort below the fetch",
        ("A fetch takes rows in the order of its input, and an input without sort has none (specification, Fetch "
         "Operation). Here the order of whole rows decides, so that the same input always gives the same rows. Other "
         "consumers take whichever rows come first."),
    ),
    (
        "WINDOW_WITHOUT_SORT", "warning", "warning",
        "{name} has no sort keys; rows are taken in the ascending order of all their columns",
        "write the sort keys of the window function",
        ("A position depends on the order of the rows of a partition (specification, Window Functions). Here the order "
         "of whole rows decides, so that the same input always gives the same positions. Other consumers take rows "
         "as they come."),
    ),
    (
        "WINDOW_FUNCTION_NOT_SUPPORTED", "error", "error",
        "window function {name} is not supported over the frame {frame}",
        "give it an order, use another function, or write a frame that is the whole partition",
        ("A limit of this program: functions of users, unions of lists, and values by the arrival of rows, such as "
         "first_value without an order, are kept up to date for whole partitions only. The function cannot be left out, because the columns after it would move."),
    ),
    (
        "WINDOW_FRAME_NOT_SUPPORTED", "error", "error",
        "{name} is computed over the frame {frame}, {reason}",
        ("write a frame of ROWS, or one of RANGE with a constant distance between integers, floats, decimals of at most "
         "18 digits, dates or timestamps (an interval of months, or of days and less), and one sort key"),
        ("A frame selects the rows around a row that a function reads (specification, Window Functions). Frames by "
         "distances between other values are a limit of this program. A consumer that ignores the frame returns the value of "
         "another frame."),
    ),
    (
        "WINDOW_DISTANCE_ZERO", "warning", "error",
        "the bound of the frame is at distance 0; it is read as the current row",
        "write the current row as the bound",
        ("The offset of a bound is greater than zero, and zero was never a valid offset: the current row is a bound of "
         "its own (specification, Window Functions). A bound without an offset has the offset 0 too. If the offset was "
         "lost, the plan means another frame."),
    ),
    (
        "WINDOW_BOUNDS_TYPE_MISSING", "info", "error",
        "{name} does not say whether its frame is of rows or of values; the value is the same for both",
        "set the bounds type to ROWS or RANGE",
        ("A frame that begins or ends at the current row has a bounds type (specification, Window Functions). The value "
         "of this function is the same for both. A consumer that needs the type refuses the plan, or takes one of both."),
    ),
    (
        "WINDOW_FUNCTION_MISPLACED", "error", "error",
        "window function {name} is called outside of a projection",
        "compute it in a projection below, and refer to its column",
        ("A window function is computed from all rows of the input of its relation (specification, Window Functions). "
         "In a condition, in an aggregate or within another window function, producers do not agree on which rows "
         "these are."),
    ),
    (
        "FETCH_ORDER_NOT_SHOWN", "warning", "warning",
        "a sort key below the fetch is not an output column; rows are chosen by it, but not shown in its order",
        "keep the sort key as an output column, or sort the output by columns that it has",
        ("The rows of the fetch are those of the full order. What is kept is the view, which is sorted when it is shown, "
         "and it has only the output columns (a limit of this program)."),
    ),
    (
        "FETCH_COUNT_UNCLEAR", "error", "error",
        "the fetch has no count, and in the release that the plan states a missing count is a count of 0",
        "write the count, or -1 for all rows",
        ("Before 0.62 the count was a plain number, and 0 was not written in the binary form. Since then a missing count "
         "means all rows (specification, Fetch Operation). A plan that states an older release can mean either."),
    ),
    (
        "FETCH_MODE_MISSING", "info", "error",
        "the top-n does not say how ties are handled; exactly the requested number of rows is returned",
        "set the mode to rows only",
        ("Producers must set the mode (specification, Top-N Operation). Rows only is what every fetch does and what "
         "LIMIT means."),
    ),
    (
        "FETCH_NULL", "info", "info",
        "the {name} of the fetch is null, which means {meaning}",
        "omit the field",
        ("A null offset is read as 0 and a null count as all rows (specification, Fetch Operation). Other consumers may "
         "refuse the plan."),
    ),
    (
        "FETCH_NOT_INTEGER", "error", "error",
        "the {name} of the fetch has type {type}, not an integer type",
        "write an i64 literal",
        ("Offset and count are expressions that evaluate to an integer (specification, Fetch Operation). A consumer that "
         "rounds other numbers decides for itself how many rows there are."),
    ),
    (
        "FETCH_NOT_CONSTANT", "error", "error",
        "the {name} of the fetch is not a constant within its type",
        "write an i64 literal",
        ("Offset and count do not depend on rows (specification, Fetch Operation). Here they are integer literals and "
         "their sums, differences, products and casts. Other functions are a limit of this program; a column is not "
         "a number of rows."),
    ),
    (
        "FETCH_OUT_OF_RANGE", "error", "error",
        "the {name} of the fetch is {value}; it must be from 0 to {largest}",
        "write a number of rows; omit the count for all rows",
        ("A negative offset or count is an error (specification, Fetch Operation). Only the removed field count has "
         "-1 for all rows."),
    ),
)  # fmt: skip
