"""The live service stores arriving links and scores with them. `cawn serve` starts it."""
