"""The passes that turn a bound plan into a flow, in the order of `lower.PASSES`."""
