"""Parse the options of a target, and refuse targets."""

from __future__ import annotations

from urllib.parse import unquote

from substrait_agg.errors import UsageError
from substrait_agg.redaction import remember


def parse_options(query: str, output: str = "spark") -> tuple[tuple[str, str], ...]:
    """Parse ``key=value&...``; keys and values are percent-decoded, and secrets are remembered.

    Raises:
        UsageError: OPTION_INVALID; messages do not quote options.
    """
    pairs: dict[str, str] = {}
    for number, part in enumerate(query.split("&") if query else (), 1):
        raw_key, equals, raw_value = part.partition("=")
        key = unquote(raw_key)
        if not key or not equals:
            help = "write ?key=value&key=value, and encode & and = in values as %26 and %3D"
            raise bad_target(f"option {number} is not key=value", help, output)
        if key in pairs:
            raise bad_target(f"option {key} is given twice", "give it once", output)
        pairs[key] = unquote(raw_value)
    remember(pairs.items())
    return tuple(pairs.items())


def bad_target(message: str, help: str, output: str = "spark") -> UsageError:
    """Return the error for the target of an output."""
    return UsageError("OPTION_INVALID", f"output {output}: {message}", help=help, path="--output")
