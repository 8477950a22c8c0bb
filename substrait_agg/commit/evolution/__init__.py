"""Continue a checkpoint with another plan.

Compare both plans, find a source for each part of the new state, and rewrite the groups. Read
`planner` first, then `task` and `rewriter`.
"""
