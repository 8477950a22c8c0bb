"""Refresh policies: their syntax, what they refuse, and that the rows do not depend on them."""
