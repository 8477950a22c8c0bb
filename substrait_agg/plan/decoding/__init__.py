"""Decode messages into the typed tree of `plan.model`; every field is read or reported.

Read `decoder` first.
"""
