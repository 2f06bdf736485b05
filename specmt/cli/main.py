"""The command group, and the one place where failures become messages and exit codes."""

from __future__ import annotations

import errno
import gc
import hashlib  # noqa: F401  (it logs tracebacks where it is first imported when memory has ended)
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
from specmt import signals
from specmt.errors import OutputError, SpecmtError, is_out_of_memory
from specmt.options import check_environment
from specmt.text.printable import printable

_COMMANDS: Final = {
    "translate": ("specmt.cli.translate:translate", "Translate text, from file to file or through a pipe."),
    "update": ("specmt.cli.update:update", "Bring translations up to date, and keep what people wrote in them."),
    "accept": ("specmt.cli.accept:accept", "Say that a translation holds for its present source."),
    "check": ("specmt.cli.check:check", "Look for translations that are missing, outdated or damaged."),
    "init": ("specmt.cli.init:init", "Propose a project file, specmt.toml, by the files that are there."),
    "jobs": ("specmt.cli.jobs:jobs", "Look at translations that are made in parts, and merge them."),
    "evaluate": ("specmt.cli.evaluate:evaluate", "Measure quality and speed of strategies, side by side."),
    "serve": ("specmt.cli.serve:serve", "Serve translations over HTTP, and a page to type into."),
    "trace": ("specmt.cli.trace.command:trace", "Show how a sentence is translated, step by step."),
    "bench": ("specmt.cli.bench:bench", "Measure what drafting costs and brings on this machine."),
    "prepare": ("specmt.cli.prepare:prepare", "Turn parallel text into training data."),
    "distill": ("specmt.cli.distill:distill", "Translate a corpus with a verifier, for its drafter to learn from."),
    "shortlist": ("specmt.cli.shortlist:shortlist", "Learn a vocabulary shortlist, for models with many pieces."),
    "train": ("specmt.cli.train:train", "Train a verifier or a drafter."),
    "import": ("specmt.cli.import_:import_", "Convert a model of another program."),
    "memory": ("specmt.cli.memory:memory", "Make a translation memory of translated documents."),
    "glossary": ("specmt.cli.glossary:glossary", "Propose a glossary of what people translated alike."),
    "models": ("specmt.cli.models:models", "List models, show what is in them, verify them."),
}

_INTERRUPTED: Final = 128 + signal.SIGINT
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
    code = run(sys.argv[1:])
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        code = _report_os_error(error)
    gc.freeze()  # what is left goes with the process; Python would look for garbage in it
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Runs a command, reports its failure in one line and returns the exit code."""
    try:
        check_environment(os.environ)
        with cli.make_context("specmt", list(arguments)) as context:
            cli.invoke(context)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _fail(_message_of(error), error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    except Exception as error:
        return _report(error)
    return 0


def _report(error: Exception) -> int:
    is_expected = isinstance(error, SpecmtError | OSError)
    # Libraries fail in any way where memory ends.
    if is_out_of_memory(error) or (not is_expected and signals.memory_is_full()):
        return _fail("out of memory.", SpecmtError.exit_code)
    if isinstance(error, SpecmtError):
        return _fail(str(error), error.exit_code)
    if isinstance(error, OSError):
        return _report_os_error(error)
    if "SPECMT_DEBUG" in os.environ:
        raise error
    what = f"{type(error).__name__}: {error}".removesuffix(": ")
    return _fail(f"{what} (a fault of the program; SPECMT_DEBUG=1 shows where)", SpecmtError.exit_code)


def _message_of(error: click.ClickException) -> str:
    """Returns what the parser says is wrong, and where to read what is right."""
    message = error.format_message()
    if not isinstance(error, click.UsageError) or error.ctx is None:
        return message
    return f"{message.rstrip('.')}. See `{error.ctx.command_path} --help`."


def _report_os_error(error: OSError) -> int:
    if isinstance(error, BrokenPipeError):
        _silence_stdout()
        return _CLOSED_PIPE
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS):
        _silence_stdout()
    name = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    return _fail(f"{name}{error.strerror or error}", OutputError.exit_code)


def _silence_stdout() -> None:
    # What is still buffered would fail once more, and loudly, when the interpreter flushes it at exit.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, code: int) -> int:
    with suppress(OSError):
        click.echo(f"specmt: error: {printable(' '.join(message.split()))}", err=True)
    return code
