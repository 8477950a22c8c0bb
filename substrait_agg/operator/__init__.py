"""Stateful operators, pure.

Arrow in, Arrow out. `registry` maps each kind of node to its operator. Read `common.protocol`
first, then `aggregate.operator`.
"""
