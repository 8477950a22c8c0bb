"""What comes after the kind of an output: the tables, topics and formats that are written."""
