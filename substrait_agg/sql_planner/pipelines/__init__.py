"""Plan pipelines: SQL files with several views in, a plan per view out.

Read `pipeline`, which orders and plans the views; then `clauses`, which refuses what cannot be
maintained.
"""
