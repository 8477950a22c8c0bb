"""Data sets of the benchmarks: made once per parameters, and kept under ``bench-data/``."""
