"""Runs the command line as ``python -m specmt``."""

from specmt.cli.main import main

if __name__ == "__main__":
    main()
