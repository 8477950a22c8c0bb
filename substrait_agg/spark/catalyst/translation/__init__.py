"""Map types, expressions and relations of Spark to Substrait."""
