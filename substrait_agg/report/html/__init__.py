"""Reports and explanations as HTML pages.

`page` is the shell of each, and has the templates: Python prepares values, the templates make the markup.
"""
