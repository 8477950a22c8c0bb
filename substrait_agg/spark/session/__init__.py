"""Spark sessions.

Start one, set what plans rely on, tell what its errors mean.
"""
