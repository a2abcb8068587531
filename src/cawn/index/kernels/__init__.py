"""Compiled loops over the lists of an index."""
