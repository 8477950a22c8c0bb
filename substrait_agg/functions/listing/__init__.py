"""The tables of functions as text, JSON and Markdown."""
