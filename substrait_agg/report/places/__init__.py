"""Where problems are in a plan's content, and the part of the plan around them."""
