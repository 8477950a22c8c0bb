"""Places in the plan message of what a measure is made of, as problems name them."""

from __future__ import annotations

from substrait_agg.plan import model


def argument_place(measure: model.Measure, position: int) -> str:
    """The value, word or type that is the argument at `position`."""
    argument = measure.arguments[position]
    match argument:
        case model.EnumArgument():
            return f"{argument.path}.enum"
        case model.TypeArgument():
            return f"{argument.path}.type"
        case model.Literal():
            return expression_place(argument)
        case _:
            return argument.path


def expression_place(expression: model.Expression) -> str:
    """The ``Expression`` message; literals are named by the message inside it elsewhere."""
    return expression.path.removesuffix(".literal")


def outer_place(measure: model.Measure) -> str:
    """The ``Measure`` message, which has the function and the filter."""
    return measure.path.removesuffix(".measure")


def filter_place(measure: model.Measure) -> str:
    """The filter of the measure."""
    return f"{outer_place(measure)}.filter"
