"""Files, tables and streams become `Events`."""
