"""Tables of Iceberg as sources: their rows at a snapshot, and the difference of later ones."""
