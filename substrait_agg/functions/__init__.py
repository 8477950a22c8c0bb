"""Define the tables of functions, and exact arithmetic on whole columns.

Read `aggregates` and `scalars` first: they have a row per function. `windows` defines the functions
of this program's own extension. `signatures` reads the standard's declarations and derives result
types. `numbers` computes exactly. `listing` writes the tables as text, JSON and Markdown.
"""
