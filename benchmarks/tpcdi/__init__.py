"""TPC-DI: the raw tables of a brokerage in three batches, for views of its warehouse."""
