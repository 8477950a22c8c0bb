"""Reports and explanations as HTML pages.

`page` is the shell of each.
"""
