"""Questions about the past: walks, identities, rates, candidates."""
