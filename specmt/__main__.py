"""Runs the command line: as ``specmt``, and as ``python -m specmt``."""

from specmt import signals


def main() -> None:
    """Runs the command line and exits with the code of DESIGN §6."""
    signals.install()  # before anything else is imported
    from specmt.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
