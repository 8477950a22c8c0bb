"""Return the paths of the parts of a measure in the plan message, for problems."""

from __future__ import annotations

from substrait_agg.plan import model


def argument_place(measure: model.MeasureCall, position: int) -> str:
    """Return the path of the value, word or type that is the argument at `position`."""
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
    """Return the path of the ``Expression`` message.

    The path of a literal otherwise names the message inside.
    """
    return expression.path.removesuffix(".literal")


def outer_place(measure: model.MeasureCall) -> str:
    """Return the path of the ``Measure`` message, which contains the function and the filter."""
    return measure.path.removesuffix(".measure")


def filter_place(measure: model.MeasureCall) -> str:
    """Return the path of the filter of the measure."""
    return f"{outer_place(measure)}.filter"
