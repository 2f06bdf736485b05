"""The command group, and the one place where failures become messages and exit codes."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, final

import click
from typing_extensions import override

import specmt
from specmt.errors import OutputError, SpecmtError

_COMMANDS: Final = {
    "translate": ("specmt.cli.translate:translate", "Translate text, from file to file or through a pipe."),
    "evaluate": ("specmt.cli.evaluate:evaluate", "Measure quality and speed of strategies, side by side."),
    "trace": ("specmt.cli.trace.command:trace", "Show how a sentence is translated, step by step."),
    "bench": ("specmt.cli.bench:bench", "Measure what drafting costs and brings on this machine."),
    "prepare": ("specmt.cli.prepare:prepare", "Turn parallel text into training data."),
    "distill": ("specmt.cli.distill:distill", "Translate a corpus with a verifier, for its drafter to learn from."),
    "shortlist": ("specmt.cli.shortlist:shortlist", "Learn which pieces may be said, for models with very many."),
    "train": ("specmt.cli.train:train", "Train a verifier or a drafter."),
    "import": ("specmt.cli.import_:import_", "Turn a model of another program into a model folder."),
    "models": ("specmt.cli.models:models", "See which models there are and what is in them."),
}

_INTERRUPTED: Final = 128 + signal.SIGINT
_TERMINATED: Final = 128 + signal.SIGTERM
_CLOSED_PIPE: Final = 128 + signal.SIGPIPE


@final
class LazyGroup(click.Group):
    """Imports the module of a command only when the command is used."""

    def __init__(self, *args: Any, lazy: dict[str, tuple[str, str]], **kwargs: Any) -> None:
        """
        :param lazy: maps the name of a command to ``module:attribute`` and its line in the list of commands.
        """
        super().__init__(*args, **kwargs)
        self._lazy = lazy

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return None
        module, _, attribute = self._lazy[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._lazy.items()])


@click.group(cls=LazyGroup, lazy=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(specmt.__version__, prog_name="specmt", message="%(prog)s %(version)s")
def cli() -> None:
    """Machine translation that decodes by draft and verify.

    A small drafter proposes several tokens ahead, the translation model checks them all at once: its own translation,
    in a third to a half of the steps.

    \b
    Example:
      specmt translate letter.de -o letter.en
      cat letter.de | specmt translate
    """


def main() -> None:
    """Runs the command line and exits with the code of DESIGN §6."""
    signal.signal(signal.SIGTERM, _terminate)
    code = run(sys.argv[1:])
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        code = _report_os_error(error)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Runs a command, reports its failure in one line and returns the exit code."""
    try:
        with cli.make_context("specmt", list(arguments)) as context:
            cli.invoke(context)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    except SpecmtError as error:
        return _fail(str(error), error.exit_code)
    except MemoryError:
        return _fail("out of memory; try a smaller `--batch-size` or `--batch-tokens`.", SpecmtError.exit_code)
    except OSError as error:
        return _report_os_error(error)
    return 0


def _report_os_error(error: OSError) -> int:
    if isinstance(error, BrokenPipeError):
        _silence_stdout()
        return _CLOSED_PIPE
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS):
        _silence_stdout()
        return _fail(str(error.strerror), OutputError.exit_code)
    raise error


def _silence_stdout() -> None:
    # What is still buffered would fail once more, and loudly, when the interpreter flushes it at exit.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> int:
    with suppress(OSError):
        click.echo(f"specmt: error: {' '.join(message.split())}", err=True)
    return code


def _terminate(number: int, _: object) -> None:
    # Once is enough: a second signal must not disturb the removal of temporary files.
    signal.signal(number, signal.SIG_IGN)
    sys.exit(_TERMINATED)
