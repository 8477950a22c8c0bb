"""The views of TPC-DI in SQL: bronze, silver and gold."""
