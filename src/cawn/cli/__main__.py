"""`python -m cawn.cli`, the same as `python -m cawn`."""

from cawn.cli import main

main()
