"""Runs of plans on the local executor: sources, linear steps and event time on Arrow tables, without a JVM."""
