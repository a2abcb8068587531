"""`python -m cawn.cli`."""

from cawn.cli import main

main()
