"""The incremental aggregate.

Delta rows and the trees of a hash range come in; new rows of the trees and changes go out. Read
`operator` first, then `step`, `groups`, `trees` and `values`.
"""
