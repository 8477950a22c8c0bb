"""Signatures of the standard's extension files, and the result types that they derive."""
