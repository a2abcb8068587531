"""Everything exact about the past, as lists of links."""
