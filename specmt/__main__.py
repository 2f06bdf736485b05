"""Runs the command line: as ``specmt``, and as ``python -m specmt``."""

import gc

from specmt import signals


def main() -> None:
    """Runs the command line and exits with the code of DESIGN §6."""
    signals.install()  # before anything else is imported
    gc.set_threshold(100_000)  # what a start makes stays: looking for garbage in it, time and again, would cost a tenth
    from specmt.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
