"""The web page of a running run, for this machine only.

`server` answers requests, `content` collects what the page shows, and `rendering` writes it as HTML.
"""
