"""Order-preserving encodings of keys: bytes that sort like the values."""
