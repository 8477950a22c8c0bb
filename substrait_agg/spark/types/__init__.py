"""Types and columns of Spark.

The modules convert Substrait types to Spark types and source columns to plan columns. They build
casts, literals, decimal arithmetic and grouping keys. `cached_transform` builds the columns of a
batch once per stream.
"""
