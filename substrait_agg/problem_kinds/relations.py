"""List problems of relations that binding reports."""

from __future__ import annotations

from substrait_agg.problem_kinds.kind import ProblemKind, kinds

RELATIONS: tuple[ProblemKind, ...] = kinds(
    "relations",
    (
        "FILES_NOT_ALLOWED", "error", "error",
        "the plan names files itself ({files})",
        "write the read as a named table and give its location as a source",
        ("A rule of this program: who runs a plan decides where data comes from, not who wrote it. A plan from "
         "elsewhere could read any file that the process may read, and a list of files says nothing about the changes "
         "that come later."),
    ),
    (
        "SCHEMA_TYPES_MISSING", "error", "error",
        "the schema of table {table} names {count} columns and gives no column types",
        "run takes the types from the source of the table; to check the plan without one, write the types into it",
        ("A schema has a type for every name (specification, Named Structs). Without types no function and no result "
         "type of the plan can be checked, so validate and explain have nothing to go by. DataFusion wrote such plans "
         "before release 42."),
    ),
    (
        "FIELD_OUT_OF_RANGE", "error", "error",
        "reference to column {ordinal}, but the input has {count} columns",
        "refer to columns 0 to {last}",
        ("A reference counts the columns of its input from 0 (specification, Field References). Mostly the plan counts "
         "the columns of another relation, such as those before an output mapping; then the references that are within "
         "range mean the wrong columns as well."),
    ),
    (
        "EMIT_OUT_OF_RANGE", "error", "error",
        "{what} names column {ordinal}, but there are {count} columns",
        "name columns 0 to {last}",
        ("An output mapping counts the columns that the relation would have without it, from 0 (specification, Common "
         "Fields). A mapping beyond them was written for another layout, so its other entries mean the wrong columns "
         "as well."),
    ),
    (
        "NESTED_STEP_INVALID", "error", "error",
        "a value of type {type} has no part {step}",
        "refer to a field of a struct, an offset of a list or a key of a map",
        ("A reference goes into a struct by field, into a list by offset and into a map by a key of its key type "
         "(specification, Field References). Into other types there is no way; a consumer that skips the step takes "
         "the outer value."),
    ),
    (
        "FILTER_NOT_BOOLEAN", "error", "error",
        "the condition is {type}, not boolean",
        "write a condition whose type is boolean",
        ("Conditions of filters, reads and if-then expressions are boolean (specification, Filter Operation, If "
         "Expression). A consumer that takes numbers or texts for conditions decides for itself which of them are "
         "true."),
    ),
    (
        "TABLE_NAME_MISSING", "error", "error",
        "the read names no table",
        "give the table's name",
        ("A named table has at least one name, and none of them is empty (specification, Read Operation). Sources are "
         "given by the table's name; a consumer that looks up the empty name reads whatever it finds under it, or "
         "nothing."),
    ),
    (
        "FILTER_CONSTANT", "warning", "warning",
        "the condition is always {value}: {effect}",
        "remove the filter, or compare a column",
        ("A condition that no row can change is allowed, but it is seldom meant: mostly a part of the query was lost "
         "when the plan was made. With true the filter is useless; with false or null the result is empty for ever."),
    ),
    (
        "SET_ONE_INPUT", "info", "error",
        "the {operation} has one input, the specification asks for two at least; it is computed over that one",
        "remove the set operation, or give it its other inputs",
        ("A set operation has at least two inputs (specification, Set Operation). Of a union of one nothing is lost "
         "when its rows are passed on; a producer that dropped an input may have meant to, or not."),
    ),
    (
        "SET_SECONDARY_MISSING", "error", "error",
        "the {operation} has one input; it compares a primary input with at least one secondary input",
        "give the set operation its secondary inputs",
        ("A set operation has a primary input and at least one secondary input (specification, Set Operation). The "
         "result of a minus or an intersection without secondary inputs is not defined: all rows or none."),
    ),
    (
        "SET_COPIES_UNCLEAR", "info", "warning",
        "the specification does not say how many copies of a row minus multiset returns; those of the primary input are kept",
        "use minus primary or minus primary all where one of them is meant",
        ("The specification gives the number of copies for every set operation but this one (specification, Set "
         "Operation Types): it returns all records of the primary input that are not in all secondary inputs, and does "
         "not say that duplicates are removed. A consumer that removes them returns each row once."),
    ),
    (
        "UNION_TYPES_DIFFER", "error", "error",
        "input {input} has columns ({other}), the first input has ({first})",
        "give all inputs of the set operation the same column types",
        ("All inputs of a set operation have the same column types (specification, Set Operation); only nullability "
         "may differ here. A consumer that goes by position puts unrelated columns on top of each other, or converts "
         "values."),
    ),
    (
        "ROW_NOT_CONSTANT", "error", "error",
        "a row written in the plan holds an expression that is not a constant",
        "write the rows as literals",
        ("A limit of this program: the specification lets rows of a virtual table hold any expression without columns, "
         "here they hold literals, and casts of literals, that convert to the column's type."),
    ),
    (
        "ROW_TYPE_DIFFERS", "info", "error",
        "values of column {name} are written as {type}, the schema says {declared}; they are converted",
        "write literals of the column's type",
        ("The values of a virtual table have the types of its schema (specification, Read Operation). Here they are "
         "converted to them; a consumer that believes the schema reads the values as another type, one that believes "
         "the values gives another schema."),
    ),
    (
        "ROW_TYPE_NOT_SUPPORTED", "error", "error",
        "a value of type {type} cannot stand in column {name} of type {declared}",
        "write a literal of the column's type",
        ("The values of a virtual table have the types of its schema (specification, Read Operation). There is no "
         "conversion between the two, so values stand in the wrong column or the schema is that of another table."),
    ),
    (
        "ROW_NULL", "error", "error",
        "a row holds null in column {name}, whose type {type} has no null",
        "make the column nullable, or write a value",
        ("A column that is required has no nulls (specification, Type System). A consumer that believes the schema "
         "skips the null check and shows whatever value lies under the null."),
    ),
    (
        "ROW_WIDTH", "error", "error",
        "a row written in the plan has {count} values for {columns} columns",
        "give every row one value per column of the schema",
        ("Every row of a virtual table has one value per column of the schema (specification, Read Operation). "
         "Otherwise the values behind a missing one belong to other columns."),
    ),
    (
        "PROJECT_REPLACES_COLUMNS", "info", "error",
        "a project without output mapping is read as {producer} means it: its expressions alone are its output",
        "write the output mapping",
        ("The output of a project without mapping is the columns of its input, and behind them its expressions "
         "(specification, Project Operation). This producer writes no mapping and means the expressions alone; read by "
         "the letter, every reference above counts the wrong columns."),
    ),
    (
        "PROJECT_EXPRESSIONS_MISSING", "info", "error",
        "the project has no expressions; it only passes on columns of its input",
        "give it an expression, or map the columns in the relation below",
        ("A project has one or more expressions (specification, Project Operation). Without any it can only choose and "
         "order columns, which every relation does by its output mapping; mostly the expressions were lost when the "
         "plan was made."),
    ),
    (
        "PROJECT_UNCLEAR", "error", "error",
        ("{producer} wrote projects without output mapping in two meanings when it stated version {version}, and the "
         "plan fits both: the expressions alone, or the input's columns and the expressions"),
        "write the output mapping, or make the plan with a newer release of the producer",
        ("The output of a project without mapping is the columns of its input, and behind them its expressions "
         "(specification, Project Operation). Older releases of this producer meant the expressions alone, and state "
         "the same version. Mostly the names of the root and the references tell which is meant; here both meanings "
         "give a result, and not the same one."),
    ),
    (
        "SORT_NO_EFFECT", "info", "info",
        "this sort changes nothing: what reads it does not depend on the order of rows",
        "remove the sort, or sort at the root",
        ("Aggregates, unions and other sorts take their rows in any order and give them in none (specification, "
         "Basics, Orderedness). Who sorts below them to order the result, or a measure inside, gets an order by chance "
         "at best."),
    ),
    (
        "SORT_KEY_NOT_IN_OUTPUT", "error", "error",
        "the plan's order is by a column that is not among its output columns",
        "keep the sort key as an output column, or remove the sort",
        ("A limit of this program: what is kept is the view, which is sorted when it is shown, and it has only the "
         "output columns. Consumers that project after they sort lose nothing but the order here."),
    ),
    (
        "SORT_KEY_NOT_A_COLUMN", "error", "error",
        "the plan's order is by an expression",
        "compute the expression in a project below the sort and sort by that column",
        ("A limit of this program: what is kept is the view, which is sorted when it is shown, by its columns. An "
         "expression would have to be computed anew for every reader."),
    ),
    (
        "SORT_KEYS_MISSING", "info", "error",
        "the sort has no keys; it changes nothing",
        "give it a key, or remove it",
        ("A sort has one or more sort fields (specification, Sort Operation). Without any the rows stay as they were; "
         "mostly the key was lost when the plan was made, and with it the order that readers rely on."),
    ),
    (
        "SORT_DIRECTION_MISSING", "error", "error",
        "the sort key says no direction",
        "set ascending or descending with nulls first or last",
        ("Every sort field says its direction and where nulls go (specification, Sort Operation); unspecified is only "
         "the default of the enumeration. Consumers that assume ascending differ in where they put nulls."),
    ),
    (
        "SORT_DIRECTION_NOT_SUPPORTED", "error", "error",
        "sort direction {direction} cannot be shown",
        "use ascending or descending with nulls first or last",
        ("A limit of this program: the view is sorted by its values when it is shown. Clustered (specification, Sort "
         "Operation) only asks that equal values stand together; who shows them ascending shows an order that was not "
         "asked for."),
    ),
    (
        "NAME_REPEATED", "warning", "warning",
        "columns {first} and {ordinal} are both named {name}; only their position tells them apart",
        "give every column a name of its own",
        ("The specification goes by position and does not forbid equal names. Files, tables and data frames are read "
         "by name: there one of the columns hides the other, or the write fails."),
    ),
    (
        "NAME_EMPTY", "info", "warning",
        "column {ordinal} has an empty name",
        "give it a name",
        ("The specification goes by position and does not forbid empty names. A column without a name cannot be asked "
         "for where columns are taken by name, and not every file format takes it."),
    ),
    (
        "OUTPUT_EMPTY", "error", "error",
        "the plan has no output column",
        "keep a column in the output mapping",
        ("The rows of a view are told apart by their columns, and no file holds rows without any. Mostly an output "
         "mapping is empty that was meant to be left out, which by the specification means all columns (Common "
         "Fields)."),
    ),
    (
        "ROOT_NAMES_MISSING", "warning", "error",
        "the plan names no output columns; they are called {names}",
        "write the relation as a root with names",
        ("The result's columns get their names from the root of the plan (specification, Plans); a bare relation has "
         "none. Names that are made up change when the plan changes, and with them the schema of the view."),
    ),
    (
        "OUTPUT_TYPE_NOT_KEPT", "error", "error",
        "output column {ordinal} has type {type}, whose rows cannot be told apart in the view",
        "remove the column, or convert it to a type with a total order",
        ("A limit of this program: the view is kept as rows with weights, and a deletion has to find the row that it "
         "takes away. That takes values that can be compared; a month, for one, is no certain number of days."),
    ),
)  # fmt: skip
