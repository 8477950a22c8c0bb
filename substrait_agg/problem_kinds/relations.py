"""List problems of relations that binding reports."""

from __future__ import annotations

from substrait_agg.problem_kinds.kind import ProblemKind, kinds

RELATIONS: tuple[ProblemKind, ...] = kinds(
    "relations",
    (
        "MASK_REORDERS", "info", "error",
        "the mask keeps the columns {columns}, which is not their order; they are read in the order of the mask",
        "list the columns of the mask in ascending order, and change their order in a projection",
        ("A mask leaves out columns, and the specification does not define that it changes their order or repeats them "
         "(specification, Field References). Producers write masks that do, and mean the order of the mask. A consumer "
         "that keeps the order of the columns reads others under their names."),
    ),
    (
        "FILES_NEED_SOURCE", "info", "info",
        "the plan reads table {table} from files that it names ({files}); run does not open them by itself",
        "to run the plan, add --source {table}=SPEC, or --allow-files DIR with a folder that has the files",
        ("A rule of this program: the user who runs a plan decides where data comes from, not the author of the plan. "
         "A plan from another party could read any file that the process may read. So run needs a source for the "
         "table, or a folder whose files such plans may read."),
    ),
    (
        "SCHEMA_TYPES_MISSING", "error", "error",
        "the schema of table {table} names {count} columns without types",
        ("give the table a source with --source: run, validate and explain take the types from it; without a source, "
         "write the types into the plan"),
        ("A schema has a type for every name (specification, Named Structs). Without types no function and no result "
         "type of the plan can be checked. DataFusion wrote such plans before release 42."),
    ),
    (
        "FIELD_OUT_OF_RANGE", "error", "error",
        "the plan refers to column {ordinal}, but the input has {count} columns",
        "refer to columns 0 to {last}",
        ("A reference counts the columns of its input from 0 (specification, Field References). The usual cause is "
         "that the plan counts the columns of another relation, such as those before an output mapping. References "
         "within range then mean the wrong columns as well."),
    ),
    (
        "EMIT_OUT_OF_RANGE", "error", "error",
        "{what} refers to column {ordinal}, but there are {count} columns",
        "refer to columns 0 to {last}",
        ("An output mapping counts the columns that the relation would have without it, from 0 (specification, Common "
         "Fields). A mapping beyond them was written for another layout, so its other entries mean the wrong columns "
         "as well."),
    ),
    (
        "NESTED_STEP_INVALID", "error", "error",
        "a value of type {type} has no part {step}",
        "refer to a field of a struct, an offset of a list or a key of a map",
        ("A reference selects a field of a struct by ordinal, an element of a list by offset and a value of a map by "
         "a key of its key type (specification, Field References). Values of other types have no parts. A consumer "
         "that skips the step returns the outer value."),
    ),
    (
        "FILTER_NOT_BOOLEAN", "error", "error",
        "the condition has type {type}, not boolean",
        "write a condition whose type is boolean",
        ("Conditions of filters, reads and if-then expressions are boolean (specification, Filter Operation, If "
         "Expression). A consumer that accepts numbers or texts as conditions decides for itself which of them are "
         "true."),
    ),
    (
        "TABLE_NAME_MISSING", "error", "error",
        "the read does not name a table",
        "write the name of the table",
        ("A named table has at least one name, and no name is empty (specification, Read Operation). Sources are "
         "given by the name of the table. A consumer that looks up the empty name reads another table, or nothing."),
    ),
    (
        "FILTER_CONSTANT", "warning", "warning",
        "the condition is always {value}: {effect}",
        "remove the filter, or compare a column",
        ("A condition that is the same for every row is allowed but rarely intended. Usually a part of the query was "
         "lost when the plan was written. With true the filter has no effect; with false or null the result is always "
         "empty."),
    ),
    (
        "SET_ONE_INPUT", "info", "error",
        "the {operation} has one input, but the specification requires at least two; it is computed over that one",
        "remove the set operation, or add its other inputs",
        ("A set operation has at least two inputs (specification, Set Operation). Passing on the rows of a single "
         "input loses nothing, but the producer may have dropped an input by mistake."),
    ),
    (
        "SET_SECONDARY_MISSING", "error", "error",
        "the {operation} has one input; it needs a primary and at least one secondary input",
        "add the secondary inputs of the set operation",
        ("A set operation has a primary input and at least one secondary input (specification, Set Operation). The "
         "result of a minus or an intersection without secondary inputs is not defined: all rows or none."),
    ),
    (
        "SET_COPIES_UNCLEAR", "info", "warning",
        ("the specification does not define how many copies of a row minus multiset returns; the copies of the "
         "primary input are kept"),
        "use minus primary or minus primary all",
        ("The specification defines the number of copies for every set operation except this one (specification, Set "
         "Operation Types): it returns all records of the primary input that are not in all secondary inputs, and "
         "does not say that duplicates are removed. A consumer that removes them returns each row once. Older releases "
         "of Isthmus wrote this operation for EXCEPT ALL."),
    ),
    (
        "UNION_TYPES_DIFFER", "error", "error",
        "input {input} has columns ({other}), but the first input has ({first})",
        "give all inputs of the set operation the same column types",
        ("All inputs of a set operation have the same column types (specification, Set Operation); here only "
         "nullability may differ. A consumer that matches by position combines unrelated columns, or converts values."),
    ),
    (
        "ROW_NOT_CONSTANT", "error", "error",
        "a row of the virtual table contains an expression that is not a constant",
        "write the rows as literals",
        ("A limit of this program. The specification allows any expression without columns in the rows of a virtual "
         "table. Here the rows contain literals, and casts of literals, that convert to the type of the column."),
    ),
    (
        "ROW_TYPE_DIFFERS", "info", "error",
        "values of column {name} have type {type}, but the schema declares {declared}; they are converted",
        "write literals of the type of the column",
        ("The values of a virtual table have the types of its schema (specification, Read Operation). Here the values "
         "are converted. A consumer that uses the schema reads the values as another type; one that uses the values "
         "produces another schema."),
    ),
    (
        "ROW_TYPE_NOT_SUPPORTED", "error", "error",
        "a value of type {type} cannot be converted to {declared}, the type of column {name}",
        "write a literal of the type of the column",
        ("The values of a virtual table have the types of its schema (specification, Read Operation). No conversion "
         "exists between the two types, so the value is in the wrong column or the schema belongs to another table."),
    ),
    (
        "ROW_NULL", "error", "error",
        "a row has a null in column {name}, whose type {type} is not nullable",
        "make the column nullable, or write a value",
        ("A required column has no nulls (specification, Type System). A consumer that relies on the schema skips the "
         "null check and returns the undefined value under the null."),
    ),
    (
        "ROW_WIDTH", "error", "error",
        "a row of the virtual table has {count} values for {columns} columns",
        "give every row one value per column of the schema",
        ("Every row of a virtual table has one value per column of the schema (specification, Read Operation). If one "
         "is missing, the values after it belong to other columns."),
    ),
    (
        "PROJECT_REPLACES_COLUMNS", "info", "error",
        "a project without output mapping returns its expressions only, as {producer} intends",
        "write the output mapping",
        ("A project without mapping returns the columns of its input, followed by its expressions (specification, "
         "Project Operation). This producer writes no mapping and means the expressions only. Read literally, every "
         "reference above would count the wrong columns."),
    ),
    (
        "PROJECT_EXPRESSIONS_MISSING", "info", "error",
        "the project has no expressions; it only passes on columns of its input",
        "add an expression, or map the columns in the relation below",
        ("A project has one or more expressions (specification, Project Operation). Without expressions it only "
         "selects and orders columns, which the output mapping of any relation can do. Usually the expressions were "
         "lost when the plan was written."),
    ),
    (
        "PROJECT_UNCLEAR", "error", "error",
        ("{producer} wrote projects without output mapping in two meanings when it stated version {version}, and the "
         "plan fits both: only the expressions, or the columns of the input and the expressions"),
        "write the output mapping, or write the plan with a newer release of the producer",
        ("A project without mapping returns the columns of its input, followed by its expressions (specification, "
         "Project Operation). Older releases of this producer meant the expressions only, and state the same version. "
         "Usually the names of the root and the references show which meaning applies. Here both meanings are "
         "possible, and their results differ."),
    ),
    (
        "SORT_NO_EFFECT", "info", "info",
        "this sort has no effect: the relation that reads it ignores the order of rows",
        "remove the sort, or sort at the root",
        ("Aggregates, unions and other sorts ignore the order of their input and produce no order (specification, "
         "Basics, Orderedness). A sort below them does not order the result, nor the input of a measure."),
    ),
    (
        "SORT_KEY_NOT_IN_OUTPUT", "error", "error",
        "the plan is ordered by a value that the relations above the sort leave out",
        "keep the sort key as a column of these relations, sort above them, or remove the sort",
        ("A limit of this program: the view is sorted when it is read. A sort key that only projections leave out is "
         "stored as a hidden column of the view. Other relations above the sort, such as a filter, do not pass on what "
         "a projection below them has left out."),
    ),
    (
        "SORT_KEYS_MISSING", "info", "error",
        "the sort has no keys and no effect",
        "add a sort key, or remove the sort",
        ("A sort has one or more sort fields (specification, Sort Operation). Without sort fields the order of rows "
         "does not change. Usually the key was lost when the plan was written, and with it the order that readers "
         "rely on."),
    ),
    (
        "SORT_DIRECTION_MISSING", "error", "error",
        "the sort key has no direction",
        "set ascending or descending with nulls first or last",
        ("Every sort field has a direction and a place for nulls (specification, Sort Operation); unspecified is only "
         "the default of the enumeration. Consumers that assume ascending differ in where they put nulls."),
    ),
    (
        "NAME_REPEATED", "warning", "warning",
        "fields {first} and {ordinal} have the same name {name}; they differ in their position only",
        "give every field its own name",
        ("The specification identifies fields by position and does not forbid equal names. Files, tables and data "
         "frames are read by name: one of the fields hides the other, or the write fails. In a view, all fields of "
         "such a struct are named by their positions: f0, f1, and so on."),
    ),
    (
        "NAME_EMPTY", "info", "warning",
        "field {ordinal} has an empty name",
        "give it a name",
        ("The specification identifies fields by position and does not forbid empty names. A field without a name "
         "cannot be selected by name, and some file formats do not allow it. In a view, all fields of a struct with "
         "such a field are named by their positions: f0, f1, and so on."),
    ),
    (
        "NAME_RESERVED", "error", "error",
        "output column {ordinal} has the name {name}, which changes of the view use for {meaning}",
        "give the column another name",
        ("A limit of this program: a change is a row of the view with its version in the column __version and its "
         "weight in __weight. Spark compares names without regard to case, so names that differ in case alone are "
         "reserved as well."),
    ),
    (
        "OUTPUT_EMPTY", "error", "error",
        "the plan has no output column",
        "add a column to the output mapping",
        ("The rows of a view are identified by their columns, and no file stores rows without columns. The usual "
         "cause is an empty output mapping where no mapping was intended, which by the specification means all "
         "columns (Common Fields)."),
    ),
    (
        "ROOT_NAMES_MISSING", "warning", "error",
        "the plan does not name its output columns; they are called {names}",
        "write the relation as a root with names",
        ("The result columns get their names from the root of the plan (specification, Plans); a bare relation has "
         "none. Generated names change when the plan changes, and with them the schema of the view."),
    ),
    (
        "OUTPUT_TYPE_NOT_KEPT", "error", "error",
        "output column {ordinal} has type {type}, whose values cannot be compared in the view",
        "remove the column, or convert it to a type with a total order",
        ("A limit of this program: the view is stored as rows with weights, and a deletion must find the row that it "
         "removes. This requires values that can be compared. For example, an interval of months is not a fixed "
         "number of days."),
    ),
    (
        "RECURSION_NOT_SUPPORTED", "error", "error",
        "the recursion cannot be maintained: {reason}",
        ("in the step read the rows of the last level by filters, projections, joins and unions; compute aggregates, limits "
         "and window functions above the recursion"),
        ("A recursion has the rows of an anchor, and level by level those that a step makes of the rows of the level "
         "before. A change of a level changes the next one, so the step must say which rows of the next level a row has: "
         "filters, projections, joins, DISTINCT and set operations of several such inputs do."),
    ),
)  # fmt: skip
