"""The analyzed plan of Spark as a tree, and what is refused in it."""
