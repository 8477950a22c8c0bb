"""Files of this machine and of object stores.

`filesystem` is the one seam: every operation that a crash can cut off goes through it.
`atomic_files` writes a file whole or not at all. `locations` names a folder or a store,
`object_store` reaches a store, `download_cache` keeps copies of its files.
"""
