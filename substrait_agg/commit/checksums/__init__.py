"""Checksums of views, which SQL engines can compute again."""
