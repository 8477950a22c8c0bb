"""Split and move the conditions of joins.

`conjunctions` splits conditions, `keys` finds the equalities between the inputs of a join, `failing`
tells which expressions can fail. `normal_form` rewrites a bound relation: it reads inner joins, crosses
and filters as one multi-way join (`multi_join`), moves conditions to the inputs that they read, and
finds keys for every join. `single_rows` tells which joins still have no key and are too large.
"""
