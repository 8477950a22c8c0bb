"""What the output `postgres=` writes with: rows by key, types, the target table, the connection."""
