"""Admission control: limit what a batch reads, so that its duration stays under a target.

`read_limits` decides the limits, from the sizes and durations of earlier batches.
"""
