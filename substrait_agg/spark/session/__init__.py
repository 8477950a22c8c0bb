"""Spark sessions: start one, apply the settings that plans rely on, and explain Spark's errors."""
