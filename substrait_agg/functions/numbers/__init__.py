"""Compute exactly on whole columns: balanced digits of base 2^32, roots and quotients."""
