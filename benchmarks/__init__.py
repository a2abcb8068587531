"""Each benchmark prints one table; a ratio measured in one run, never an absolute time, is what is compared."""
