"""The operator for set operations: the rule of each operation, then the operator."""
