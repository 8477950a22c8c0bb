"""Checks that several tools need.

Findings, trees by name, files that no version names, Spark's logs.
"""
