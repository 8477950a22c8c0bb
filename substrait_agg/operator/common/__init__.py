"""What all operators share.

The protocol, the specification of their input, emission rules, watermarks. Read `protocol` first.
"""
