"""The queries of Nexmark over its three tables, as views that are kept and as queries that are computed again."""
