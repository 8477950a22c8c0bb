"""Other incremental engines, in environments of their own: modules here import nothing of this project's packages but jobs."""
