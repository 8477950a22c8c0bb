"""Continue a checkpoint with another plan.

Compare both, plan where each part of the new state comes from, rewrite the groups. Read `planner`
first.
"""
