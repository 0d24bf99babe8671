"""Reads what is, decides what should be, applies the difference, and writes the status once."""
