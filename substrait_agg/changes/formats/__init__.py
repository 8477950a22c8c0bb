"""Changes and views as text.

Values, lines, events.
"""
