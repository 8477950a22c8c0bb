"""Read the refresh policies of a run: one for all views, and others for single views."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal as OneOf

from substrait_agg.errors import UsageError

RefreshPolicy = OneOf["auto", "incremental", "incremental_strict", "full"]
REFRESH_POLICIES: tuple[RefreshPolicy, ...] = ("auto", "incremental", "incremental_strict", "full")

DEFAULT: RefreshPolicy = "incremental"


@dataclass(frozen=True, slots=True)
class RefreshPolicies:
    """The refresh policy of each view.

    Attributes:
        default: the policy of views that are not named; None for the general default.
        places: file and line of views that SQL scripts create, by name.
    """

    default: RefreshPolicy | None = None
    views: Mapping[str, RefreshPolicy] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)

    def of(self, view: str) -> RefreshPolicy:
        """Return the policy of a view."""
        return self.views.get(view) or self.default or DEFAULT

    def declared_by(self, plans: object) -> RefreshPolicies:
        """Return the policies with those that plans have: from SQL statements, or from Python.

        A policy that the option gives a view counts more than that of its plan, and that of its
        plan more than the one that the option gives all views.
        """
        by_view = {view: _policy(word, "refresh") for view, word in _read_declared(plans).items()}
        places: Mapping[str, str] = getattr(plans, "places", {})
        return RefreshPolicies(self.default, {**by_view, **self.views}, places)

    def check_views(self, names: Collection[str]) -> None:
        """Check that all views that have a policy exist.

        Raises:
            UsageError: VIEW_UNKNOWN.
        """
        for view in self.views:
            if view not in names:
                shown = ", ".join(sorted(filter(None, names)))
                raise UsageError(
                    "VIEW_UNKNOWN",
                    f"refresh names the view {view!r}, which does not exist",
                    help=f"the views are: {shown}" if shown else "give a policy without a name",
                    path="refresh",
                )


def parse_refresh(value: str | Mapping[str, str] | RefreshPolicies) -> RefreshPolicies:
    """Parse the option ``refresh``.

    Args:
        value: ``POLICY``, or ``VIEW=POLICY`` texts, separated by commas; policies by name of view;
            or parsed policies.

    Raises:
        UsageError: OPTION_INVALID.

    Example:
        >>> policies = parse_refresh("auto,totals=full")
        >>> policies.of("totals"), policies.of("other")
        ('full', 'auto')
    """
    if isinstance(value, RefreshPolicies):
        return value
    if isinstance(value, Mapping):
        return RefreshPolicies(
            views={view: _policy(word, "refresh") for view, word in value.items()}
        )
    default: RefreshPolicy | None = None
    views: dict[str, RefreshPolicy] = {}
    for part in value.split(","):
        view, separator, word = part.strip().rpartition("=")
        policy = _policy(word, "refresh")
        if (view in views) if separator else default is not None:
            raise UsageError(
                "OPTION_INVALID",
                f"refresh gives {f'the view {view!r}' if separator else 'all views'} two policies",
                help="give one policy for all views, and VIEW=POLICY once per view",
                path="refresh",
            )
        if separator:
            views[view] = policy
        else:
            default = policy
    return RefreshPolicies(default, views)


def _read_declared(plans: object) -> dict[str, str]:
    """Return the policies of a plan, of plans by name, or of a pipeline, by name of view."""
    own = getattr(plans, "refresh", None) or {}
    if isinstance(own, str):
        return {"": own}
    named = plans.items() if isinstance(plans, Mapping) else ()
    each = {name: getattr(plan, "refresh", None) for name, plan in named}
    return {**{name: policy for name, policy in each.items() if policy}, **own}


def _policy(word: str, path: str) -> RefreshPolicy:
    for policy in REFRESH_POLICIES:
        if word.strip().lower().replace(" ", "_") == policy:
            return policy
    raise UsageError(
        "OPTION_INVALID",
        f"{word!r} is not a refresh policy",
        help=f"give one of {', '.join(REFRESH_POLICIES)}, or VIEW=POLICY",
        path=path,
    )
