"""Read the text of SQL: statements, words, names and the places of errors.

Read `tokens`, then `script`, which splits a script into statements, and `names`, the tables and
columns as SQL writes them.
"""
