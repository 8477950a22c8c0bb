"""The engines that take part: each runs in a process of its own, over the same files, and says how long each batch took."""
