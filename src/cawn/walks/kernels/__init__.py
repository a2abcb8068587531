"""Compiled loops that sample walks."""
