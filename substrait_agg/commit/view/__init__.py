"""The checkpoint as a view.

Any kept version as a table, any span of versions as changes.
"""
