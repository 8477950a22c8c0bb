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
         "What could be read before the damage means nothing: bytes that are cut off between two fields even parse as "
         "a smaller plan."),
    ),
    (
        "UNKNOWN_FIELD", "error", "error",
        "field {field} is not known in any Substrait release read here",
        "write the plan for a Substrait release up to {newest}, or remove the field",
        ("Any field can change what a plan means. Protobuf parsers skip fields that they do not know, so a newer plan "
         "loses its filters, keys or limits in them without a word; here all published fields and those that were "
         "removed are known, and the rest is refused."),
    ),
    (
        "PLAN_TOO_LARGE", "error", "error",
        "the plan exceeds {limit}",
        "split the plan, or keep rows and file lists out of it",
        ("A limit of this program: the size of a plan, its values, and its messages with shared relations in place are "
         "bounded, so that a plan is refused before it takes all memory. A few kilobytes of shared relations can stand "
         "for billions of messages."),
    ),
    (
        "PLAN_TOO_DEEP", "error", "error",
        "messages are nested more than {limit} levels deep",
        "write long chains of AND, OR or CASE flat",
        ("A limit of this program, far above the 100 levels that the parsers of protobuf allow. Programs that walk a "
         "plan by recursion crash on deeper ones."),
    ),
    (
        "TOO_MANY_PROBLEMS", "error", "error",
        "more than {limit} problems were found; the rest of the plan is not looked at",
        "correct those that are listed first",
        ("A limit of this program: a plan with that many problems is damaged or not a plan of Substrait, and more of "
         "them would say nothing new."),
    ),
    (
        "FIELD_CONFLICT", "error", "error",
        "{field} and {other} are both written and do not say the same",
        "write only one of them",
        ("Of the members of a oneof only one may be there, a key stands once, a removed field has to say the same as "
         "what took its place, and an option has one value. Parsers keep the first or the last of them, so two "
         "consumers read two different plans."),
    ),
    (
        "VALUE_INVALID", "error", "error",
        "{field} {reason}",
        "write a value that {field} can have",
        ("The value is of the wrong kind, out of its range, none of the words of its enumeration, or text that is not "
         "UTF-8; the specification gives it no meaning. A consumer that takes the field's default instead computes "
         "something that nobody wrote."),
    ),
    (
        "FIELD_MISSING", "error", "error",
        "{message} has no {field}",
        "write {field}",
        ("The specification requires the field; protobuf does not, and hands out a default: column 0, function 0, an "
         "empty relation. A consumer that does not look runs a plan that nobody wrote."),
    ),
    (
        "ANCHOR_REPEATED", "error", "error",
        "anchor {anchor} is declared for two different {what}s",
        "give every {what} an anchor of its own",
        ("An anchor stands for one extension, function, type or type variation of the plan (specification, "
         "Extensions). Of two declarations under one anchor consumers take the first or the last, so that a call means "
         "two different functions."),
    ),
    (
        "EXTENSION_UNDECLARED", "warning", "error",
        "{name} belongs to the extension with the {what} anchor {anchor}, which the plan does not declare; it is taken by its name",
        "declare the extension under this anchor, or refer to one that the plan declares",
        ("A function, type or type variation refers to its extension by the anchor under which the plan declares that "
         "extension (specification, Extensions). Without the extension only the name is left, and it can mean several: "
         "count gives an i64 in one extension of the standard and a decimal in another."),
    ),
    (
        "EXTENSION_NAME_FORM", "warning", "error",
        "{field} says {written}, which is {form}; it is read as extension {name}",
        "declare the extension among extension_urns as {urn}",
        ("A URN names an extension by its owner and its id, such as extension:io.substrait:functions_string; releases "
         "before 0.75 gave the address of its file instead (specification, Extensions). A consumer that compares texts "
         "does not find the extension."),
    ),
    (
        "FIELD_NOT_SUPPORTED", "error", "error",
        "field {field} of {message} is not supported",
        "write the plan without it",
        ("The field has a meaning in the specification that is not implemented here. A consumer that skips it runs "
         "another plan than the one that was written."),
    ),
    (
        "FIELD_REMOVED", "warning", "error",
        "the plan is written for Substrait {version}, but field {field} of {message} was removed in {release}",
        "write what took its place, or state the release that the plan is written for",
        ("The release that the plan names no longer had the field (release notes of Substrait). It is read as it was "
         "meant; bindings of that release skip it, so that a plan whose grouping keys stand in it becomes one "
         "aggregate over all rows."),
    ),
    (
        "ENHANCEMENT_NOT_SUPPORTED", "error", "error",
        "enhancement {type} changes what {message} means and is not known",
        "write the plan without the enhancement",
        ("An enhancement changes what the message around it means and may not be ignored, other than an optimization "
         "(specification, Advanced Extensions). A consumer that ignores it runs the plan without that change."),
    ),
    (
        "BEST_EFFORT_FILTER", "info", "info",
        "the best effort filter is not applied, which the specification allows",
        "put conditions that must hold in filter",
        ("A consumer may leave this filter out, or apply it to whole files only (specification, Read Operation). A "
         "plan whose result depends on it gives other rows with every consumer."),
    ),
    (
        "RELATION_NOT_SUPPORTED", "error", "error",
        "relation {kind} is not supported",
        "use read, filter, project, aggregate, set and sort relations",
        ("A limit of this program: only these relations are kept up to date from changes. Nothing is run in part, "
         "because a plan without one of its relations is another plan."),
    ),
    (
        "EXPRESSION_NOT_SUPPORTED", "error", "error",
        "expression {kind} is not supported",
        "use field references, literals, nested values, scalar functions, casts, if-then, switch and IN lists",
        ("A limit of this program: these kinds of expression are computed, and no others. Nothing is put in the place "
         "of another one."),
    ),
    (
        "NULLABILITY_MISSING", "info", "error",
        "type {type} does not say whether it is nullable; it is taken as nullable",
        "set the nullability",
        ("Every type says whether it is nullable (specification, Type System); unspecified is only the default of the "
         "enumeration. Read as required, the column would lose its nulls or break on them; read as nullable it loses "
         "nothing."),
    ),
    (
        "SCHEMA_NULLABLE", "info", "error",
        "the struct of the schema is nullable; it is read as required, since a row is never null",
        "set the nullability of the schema's struct to required",
        ("The struct of a schema is the row itself and has to be required (specification, Named Structs). A consumer "
         "that believes a nullable one makes every column nullable, and derives other types for all that is computed "
         "from them."),
    ),
    (
        "TYPE_VARIATION", "warning", "error",
        "variation {variation} of type {type} is read as the type itself",
        "use the type without a variation",
        ("A variation is another form of a type, whose functions may differ (specification, Type Variations). Here "
         "values are read as those of the plain type; where the variation means more than a layout in memory, results "
         "can differ."),
    ),
    (
        "TYPE_VARIATION_UNDECLARED", "warning", "error",
        "type {type} has the variation {variation}, which the plan does not declare; it is read as the type itself",
        "declare the variation among the plan's extensions, or use the type without it",
        ("A type refers to its variation by the anchor under which the plan declares it (specification, Type "
         "Variations). An anchor without a declaration says nothing; a consumer with a table of its own takes whatever "
         "has that number there, such as another width or layout of the values."),
    ),
    (
        "TYPE_VARIATION_ASSUMED", "info", "error",
        "variation {variation} of type {type} is not declared; it is read as {meant}, as {producer} means it",
        "use a type of the specification or of an extension that the plan declares",
        ("A variation is declared by an extension (specification, Type Variations); this producer writes numbers of "
         "its own without declaring them, for unsigned integers and other widths. A consumer that reads the plain type "
         "shows large unsigned values as negative ones."),
    ),
    (
        "CASE_IN_FIRST_CLAUSE", "warning", "error",
        "the first clause has no value; the others are compared to its condition, as {producer} means it",
        "write a switch expression, or the comparisons as conditions",
        ("Every clause of an if-then has a condition and a value (specification, If Expression). This producer writes "
         "CASE x WHEN ... as a first clause that has only x; read by the letter, x would be a condition and its value "
         "missing."),
    ),
    (
        "NAMES_COUNT", "error", "error",
        "{count} names are given for {needed} fields (nested ones included)",
        "give one name per field, depth first",
        ("Names are given depth first: one per column, and one per field of every struct inside it (specification, "
         "Named Structs). With one too many or too few, the names behind it belong to other columns."),
    ),
    (
        "REFERENCE_INVALID", "error", "error",
        "{what} {index} does not exist: the plan has {count}",
        "refer to one of them, counted from 0",
        ("Reference relations and detached messages refer to other parts of the plan by their ordinals, from 0 "
         "(specification, Reference Operator). Nothing stands at this one; a consumer that does not check takes "
         "whatever it has there."),
    ),
    (
        "REFERENCE_ROOT_MISSING", "info", "error",
        "references do not say what they refer to; they are read as columns of the input row",
        "set the root reference",
        ("A reference says what it goes out from: the input row, a row of an outer query, or the value of an expression "
         "(specification, Field References). Protobuf hands out none of them by default; a consumer that takes the row of "
         "another query reads another column."),
    ),
    (
        "REFERENCE_CYCLE", "error", "error",
        "{what} {index} refers to itself",
        "make one of the references on the way mean something else",
        ("What a relation refers to is computed before it, so nothing may refer to itself, not even through others. A "
         "consumer that follows such references never ends."),
    ),
    (
        "ROOT_COUNT", "error", "error",
        "the plan has {count} root relations, one is read",
        "write one plan per root",
        ("A view is the result of one relation. The specification allows several roots in a plan; a consumer that "
         "takes the first of them leaves the others out without a word."),
    ),
    (
        "VERSION_MISSING", "info", "warning",
        "the plan does not say which Substrait release it is written for",
        "set version: the release, and the name of the producer",
        ("A plan says for which release it is written, and by whom (specification, Versioning). Fields and functions "
         "changed their meaning over time, and producers have habits of their own: without it neither can be told, and "
         "the plan is read as the newest specification has it."),
    ),
    (
        "NAMES_TOP_LEVEL", "warning", "error",
        "{count} names are given for {needed} fields: only the columns are named, not what is nested",
        "give one name per field, depth first",
        ("Names are given depth first, and the fields of structs need theirs as well (specification, Named Structs). "
         "There are exactly as many names as columns, so they are taken for the columns; a consumer that counts depth "
         "first would name the wrong ones."),
    ),
)  # fmt: skip
