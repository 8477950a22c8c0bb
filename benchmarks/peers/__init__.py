"""Other incremental engines, in environments of their own.

`conversion` writes the input of a peer as CSV files before anything is measured. `peer_input` reads
what it wrote. The engines import nothing but these files and `benchmarks.engines.job`, because their
environments have other packages. `python -m benchmarks.peers` measures all of them in one run.
"""
