"""Keys whose bytes sort like their values."""
