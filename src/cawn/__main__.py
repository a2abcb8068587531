"""`python -m cawn`."""

from cawn.cli import main

if __name__ == "__main__":
    main()
