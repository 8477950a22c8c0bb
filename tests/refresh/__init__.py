"""Refresh policies: syntax, refusals, and rows that do not depend on the policy."""
