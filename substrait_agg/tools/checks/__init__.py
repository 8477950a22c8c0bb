"""Checks that several tools use: findings, trees by name, orphan files."""
