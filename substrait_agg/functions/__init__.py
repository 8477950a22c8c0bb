"""Define the tables of functions, and exact arithmetic on whole columns."""
