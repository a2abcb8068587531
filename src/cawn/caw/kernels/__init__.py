"""Compiled loops of CAW-N: the LSTM of walks."""
