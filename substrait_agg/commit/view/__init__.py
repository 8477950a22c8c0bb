"""The checkpoint as a view.

Every kept version can be read as a table, and every span of versions as changes.
"""
