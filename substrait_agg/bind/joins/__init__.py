"""Split and move the conditions of joins.

`conjunctions` splits conditions, `keys` finds the equalities between the inputs of a join,
`failing` finds expressions that can fail. `normal_form` rewrites a bound relation: it reads inner
joins, crosses and filters as one multi-way join (`multi_join`), moves conditions to the inputs that
they read, and finds keys for every join. `single_rows` finds joins that still have no key and are
too large. `marks` finds the nulls of mark joins, and `null_aware` computes joins for which a null
counts as a match.
"""
