"""List problems of the plan message: unreadable, unknown or contradictory parts."""

from __future__ import annotations

from substrait_agg.problem_kinds.kind import ProblemKind, kinds

PLANS: tuple[ProblemKind, ...] = kinds(
    "plans",
    (
        "PLAN_UNREADABLE", "error", "error",
        "not a Substrait plan: {reason}",
        "give a Substrait plan as protobuf or protobuf-JSON",
        ("A plan is one protobuf message, or the same message as protobuf-JSON (specification, Binary Serialization). "
         "A damaged plan is refused as a whole: bytes that are cut off between two fields still parse as a smaller "
         "plan."),
    ),
    (
        "UNKNOWN_FIELD", "error", "error",
        "field {field} does not exist in any Substrait release that is supported here",
        "write the plan for a Substrait release up to {newest}, or remove the field",
        ("Any field can change what a plan means. Protobuf parsers skip fields that they do not know, so a newer plan "
         "loses filters, keys or limits without an error. This program knows all published fields, including removed "
         "ones, and refuses every other field."),
    ),
    (
        "PLAN_TOO_LARGE", "error", "error",
        "the plan exceeds {limit}",
        "split the plan, or move rows and file lists out of it",
        ("A limit of this program. It bounds the size of a plan, the number of its values, and the number of its "
         "messages after shared relations are expanded. A plan is refused before it fills the memory: a few kilobytes "
         "of shared relations can expand to billions of messages."),
    ),
    (
        "PLAN_TOO_DEEP", "error", "error",
        "messages are nested more than {limit} levels deep",
        "write a long chain of AND, OR or CASE as one call with many arguments",
        ("A limit of this program, far above the 100 levels that protobuf parsers allow. Programs that walk a plan by "
         "recursion crash on deeper plans."),
    ),
    (
        "TOO_MANY_PROBLEMS", "error", "error",
        "the plan has more than {limit} problems; the rest of the plan is not checked",
        "correct the listed problems, then validate the plan again",
        ("A limit of this program: a plan with that many problems is damaged or is not a Substrait plan, and more "
         "messages would add nothing."),
    ),
    (
        "FIELD_CONFLICT", "error", "error",
        "{field} and {other} are both set and contradict each other",
        "set only one of them",
        ("At most one member of a oneof is set, a JSON key occurs once, a removed field agrees with its replacement, "
         "and an option has one value. Parsers keep the first or the last value, so two consumers read two different "
         "plans."),
    ),
    (
        "VALUE_INVALID", "error", "error",
        "{field} {reason}",
        "set {field} to a valid value",
        ("The value has the wrong type, is out of range, is not a word of the enumeration, or is text that is not "
         "UTF-8. The specification gives it no meaning. A consumer that uses the default of the field instead runs a "
         "different plan."),
    ),
    (
        "FIELD_MISSING", "error", "error",
        "{message} has no {field}",
        "set {field}",
        ("The specification requires the field. Protobuf does not, and returns a default: column 0, function 0, an "
         "empty relation. A consumer that does not check runs a different plan."),
    ),
    (
        "ANCHOR_REPEATED", "error", "error",
        "anchor {anchor} is declared for two different {what}s",
        "give every {what} its own anchor",
        ("An anchor identifies one extension, function, type or type variation of the plan (specification, "
         "Extensions). Of two declarations under one anchor consumers use the first or the last, so that a call means "
         "two different functions."),
    ),
    (
        "EXTENSION_UNDECLARED", "warning", "error",
        ("{name} belongs to the extension with the {what} anchor {anchor}, which the plan does not declare; it is "
         "resolved by its name"),
        "declare the extension under this anchor, or refer to an extension that the plan declares",
        ("A function, type or type variation refers to its extension by the anchor under which the plan declares that "
         "extension (specification, Extensions). Without the extension only the name is left, and a name can be "
         "ambiguous: count returns an i64 in one standard extension and a decimal in another."),
    ),
    (
        "EXTENSION_NAME_FORM", "warning", "error",
        "{field} is {written}, which is {form}; it is read as extension {name}",
        "declare the extension in extension_urns as {urn}",
        ("A URN names an extension by its owner and its id, such as extension:io.substrait:functions_string. Releases "
         "before 0.75 used the address of the extension file (specification, Extensions). A consumer that compares "
         "the texts does not find the extension."),
    ),
    (
        "FIELD_NOT_SUPPORTED", "error", "error",
        "field {field} of {message} is not supported",
        "remove the field from the plan",
        ("The specification gives the field a meaning that is not implemented here. A consumer that skips the field "
         "runs a different plan."),
    ),
    (
        "FIELD_REMOVED", "warning", "error",
        "the plan is written for Substrait {version}, but {what} {field} of {message} was removed in {release}",
        "write the {what} that replaced it, or state the release that the plan is written for",
        ("The release that the plan states no longer has the field, or the name of the enumeration's value (release "
         "notes of Substrait). It is read with the meaning that it had. Bindings of that release skip it: a plan that has its grouping keys in the "
         "field becomes one aggregate over all rows."),
    ),
    (
        "ENHANCEMENT_NOT_SUPPORTED", "error", "error",
        "enhancement {type} changes the meaning of {message} and is not supported",
        "remove the enhancement from the plan",
        ("An enhancement changes the meaning of the message that contains it and must not be ignored; an optimization "
         "may be (specification, Advanced Extensions). A consumer that ignores an enhancement runs a different plan."),
    ),
    (
        "BEST_EFFORT_FILTER", "info", "info",
        "the best effort filter is not applied; the specification allows this",
        "write conditions that must hold in the field filter",
        ("A consumer may skip this filter, or apply it to whole files only (specification, Read Operation). A plan "
         "whose result depends on it returns other rows with every consumer."),
    ),
    (
        "RELATION_NOT_SUPPORTED", "error", "error",
        "relation {kind} is not supported",
        "use read, filter, project, aggregate, set and sort relations",
        ("A limit of this program: only these relations can be maintained from changes. A plan is not run in part, "
         "because a plan without one of its relations is a different plan."),
    ),
    (
        "EXPRESSION_NOT_SUPPORTED", "error", "error",
        "expression {kind} is not supported",
        "use field references, literals, nested values, scalar functions, casts, if-then, switch, IN lists and subqueries",
        ("A limit of this program: only these kinds of expression are computed. An expression is never replaced by "
         "another one."),
    ),
    (
        "NULLABILITY_MISSING", "info", "error",
        "type {type} does not say whether it is nullable; it is read as {read}",
        "set the nullability",
        ("Every type says whether it is nullable (specification, Type System); unspecified is only the default of the "
         "enumeration. Read as required, a column would lose its nulls or fail on them. Read as nullable, it loses "
         "nothing. Only the struct of a schema is read as required, because it is the row."),
    ),
    (
        "SCHEMA_NULLABLE", "info", "error",
        "the struct of the schema is nullable; it is read as required, because a row is never null",
        "set the nullability of the schema's struct to required",
        ("The struct of a schema is the row itself and must be required (specification, Named Structs). A consumer "
         "that uses the nullable struct makes every column nullable, and derives other types for everything that is "
         "computed from them."),
    ),
    (
        "TYPE_VARIATION", "warning", "error",
        "variation {variation} of type {type} is read as the type itself",
        "use the type without a variation",
        ("A variation is another form of a type, and its functions may differ (specification, Type Variations). Here "
         "values are read as values of the plain type. If the variation means more than a layout in memory, results "
         "can differ."),
    ),
    (
        "TYPE_VARIATION_UNDECLARED", "warning", "error",
        "type {type} has the variation {variation}, which the plan does not declare; it is read as the type itself",
        "declare the variation among the plan's extensions, or use the type without it",
        ("A type refers to its variation by the anchor under which the plan declares it (specification, Type "
         "Variations). An anchor without a declaration has no meaning. A consumer with a table of its own uses the "
         "variation with that number, such as another width or layout of the values."),
    ),
    (
        "TYPE_VARIATION_ASSUMED", "info", "error",
        "variation {variation} of type {type} is not declared; it is read as {meant}, as {producer} intends",
        "use a type of the specification or of an extension that the plan declares",
        ("An extension declares a variation (specification, Type Variations). This producer writes numbers of its own "
         "without a declaration, for unsigned integers and other widths. A consumer that reads the plain type shows "
         "large unsigned values as negative ones."),
    ),
    (
        "CASE_IN_FIRST_CLAUSE", "warning", "error",
        "the first clause has no value; the other clauses are compared with its condition, as {producer} intends",
        "write a switch expression, or write the comparisons as conditions",
        ("Every clause of an if-then has a condition and a value (specification, If Expression). This producer writes "
         "CASE x WHEN ... with a first clause that contains only x. Read literally, x would be a condition without a "
         "value."),
    ),
    (
        "NAMES_COUNT", "error", "error",
        "the plan gives {count} names for {needed} fields (nested fields included)",
        "give one name per field, depth first",
        ("Names are given depth first: one per column, and one per field of every struct inside it (specification, "
         "Named Structs). With one name too many or too few, all names after it belong to other columns."),
    ),
    (
        "REFERENCE_INVALID", "error", "error",
        "{what} {index} does not exist: the plan has {count}",
        "use an ordinal that exists, counted from 0",
        ("Reference relations and detached messages refer to other parts of the plan by their ordinals, from 0 "
         "(specification, Reference Operator). The plan has no part with this ordinal. A consumer that does not check "
         "reads another part."),
    ),
    (
        "REFERENCE_ROOT_MISSING", "info", "error",
        "references do not state their root; they are read as columns of the input row",
        "set the root reference",
        ("A reference states its root: the input row, a row of an outer query, or the value of an expression "
         "(specification, Field References). None of them is the default of protobuf. A consumer that uses the row of "
         "another query reads another column."),
    ),
    (
        "REFERENCE_CYCLE", "error", "error",
        "{what} {index} refers to itself",
        "change one of the references in the cycle",
        ("A relation is computed after the relations that it refers to, so no relation may refer to itself, directly "
         "or through others. A consumer that follows such references never ends."),
    ),
    (
        "ROOT_COUNT", "error", "error",
        "the plan has {count} relations that could be its root; it must have one",
        "name the columns of each result in a root: run maintains each root as a view, Plan.views has their plans",
        ("A view is the result of one relation. The specification allows several roots in a plan, and each one is a "
         "view of its own. Of several relations without a root, a consumer that reads only the first one drops the "
         "others without an error."),
    ),
    (
        "RELATION_UNUSED", "info", "warning",
        "the root does not read this relation, so it is not computed",
        "refer to it in the root with a reference, give it a root of its own, or remove it",
        ("The result of a plan is that of its roots (specification, Plans). A relation beside them is a shared part "
         "that they refer to. One that no root reads has no effect; usually the reference to it was lost."),
    ),
    (
        "VERSION_MISSING", "info", "warning",
        "the plan does not state the Substrait release it is written for",
        "set version: the release, and the name of the producer",
        ("A plan states its release and its producer (specification, Versioning). Fields and functions changed their "
         "meaning over time, and producers deviate in known ways. Without a version the plan is read as the newest "
         "specification defines it."),
    ),
    (
        "RELEASE_UNKNOWN", "warning", "error",
        "the plan is written for Substrait {version}, which is not a release 0.x; it is read as the newest of them",
        "write the plan for a release 0.x, or state the release that it is written for",
        ("A release with another major version may change the meaning of every field (specification, Versioning). The "
         "releases that are known here have the major version 0. A consumer that reads the plan of a later one may run "
         "a different plan."),
    ),
    (
        "NAMES_TOP_LEVEL", "warning", "error",
        "the plan gives {count} names for {needed} fields: it names the columns, but not the nested fields",
        "give one name per field, depth first",
        ("Names are given depth first, and fields of structs need names too (specification, Named Structs). The plan "
         "has exactly as many names as columns, so they are read as the names of the columns. A consumer that counts "
         "depth first would name the wrong fields."),
    ),
)  # fmt: skip
