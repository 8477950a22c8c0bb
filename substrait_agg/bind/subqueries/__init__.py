"""Subqueries, which the binder writes as joins.

`bind.expressions.subqueries` binds the expression and collects what the relation around it has to
join, `decorrelate` moves the conditions on outer columns out of the subquery, `joins` writes the
joins.
"""
