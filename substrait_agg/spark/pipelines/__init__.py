"""Plan the views that functions in Python define, with the decorators of `pyspark.pipelines`."""
