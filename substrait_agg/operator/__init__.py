"""Stateful operators as pure functions on Arrow tables.

Delta rows and the trees of a hash range come in; new rows of the trees and changes go out.
`registry` maps each node type to its operator. Read `common.protocol` first, then
`aggregate.operator`.
"""
