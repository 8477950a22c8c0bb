"""Types and columns of Spark.

Substrait types as Spark types, source columns as plan columns, casts, literals, decimals, grouping
keys. `cached_transform` builds the columns of a batch once per stream.
"""
