"""The log of versions.

These modules publish and read snapshots, claim a checkpoint for a run, and delete the files that no
version needs. Read `checkpoint` first.
"""
