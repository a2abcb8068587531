"""The systems that CAW-N is compared with: one file each, known to the registry alone."""
