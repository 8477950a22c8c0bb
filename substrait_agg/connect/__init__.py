"""Sources that a run reads itself: databases, tables of a lake, message logs.

`protocol` says what a connector does, `registry` opens them. Nothing here imports Spark or the engine.
"""
