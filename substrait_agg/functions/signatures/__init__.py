"""Read the signatures of the standard's extension files, and derive result types."""
