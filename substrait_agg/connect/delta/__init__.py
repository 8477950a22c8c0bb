"""Tables of Delta Lake as sources: their rows at a version, and what each later version changed."""
