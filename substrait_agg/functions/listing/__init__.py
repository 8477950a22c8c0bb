"""Write the tables of functions as text, JSON and Markdown."""
