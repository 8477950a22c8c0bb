"""Definitions that all operators share.

The package defines the operator protocol, the operator specifications, the emission rules and the
watermarks. Read `protocol` first.
"""
