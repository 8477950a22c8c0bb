"""Find what is new in the sources of a run, and how far they have been read.

`listing` finds new files, `file_source` chooses those of a batch, `spark_streams` takes batches from a
query of Spark, and `sources` has them all.
"""
