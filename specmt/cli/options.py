"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final, TypeVar

import click

from specmt.config import DRAFTERS, DTYPES, STRATEGIES, DecodingOptions
from specmt.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

_DEFAULTS: Final = DecodingOptions()
_LOADING: Final = ("source", "target", "device", "dtype", "threads")


def model_options(function: F) -> F:
    """Adds which model is loaded and where it computes: ``model``, and ``loading``, the other arguments of loaders."""

    @wraps(function)
    def command(**values: Any) -> Any:
        loading = {name: values.pop(name) for name in _LOADING}
        threads, device = loading["threads"], loading["device"]
        if threads is not None and threads < 1:
            raise UsageError(f"`threads` must be at least 1, but is {threads} instead.")
        if re.fullmatch(r"auto|cpu|cuda(:\d+)?", device) is None:
            raise UsageError(f"`device` must be auto, cpu, cuda or cuda:N, but is {device!r} instead.")
        return function(loading=loading, **values)

    options = [
        click.option(
            "--model", metavar="NAME|DIR", help="Model name or folder.  [default: bundled, for --from and --to]"
        ),
        click.option("--from", "source", default="de", show_default=True, metavar="LANG", help="Source language."),
        click.option("--to", "target", default="en", show_default=True, metavar="LANG", help="Target language."),
        click.option(
            "--device", default="auto", show_default=True, metavar="auto|cpu|cuda[:N]", help="Where to compute."
        ),
        click.option(
            "--dtype",
            type=click.Choice(DTYPES),
            default="auto",
            show_default=True,
            help="Number format. auto: bfloat16 where the processor computes in it, else float32.",
        ),
        click.option("--threads", type=int, metavar="N", help="CPU threads.  [default: all cores]"),
    ]
    return _add(options, command)  # type: ignore[return-value]


def decoding_options(
    *, strategies: Sequence[str] = STRATEGIES, block_size: str = "auto", block_sizes: str
) -> Callable[[F], F]:
    """Returns the decorator that adds how sentences are decoded: arguments of `DecodingOptions`.

    :param block_size: the default of ``--block-size``; with ``own``, that is a value of it.
    :param block_sizes: what the help says of its values.
    """
    does = {
        "speculative": "draft and verify.",
        "greedy": "token by token, the same output.",
        "beam": "beam search, for comparison.",
    }
    options = [
        click.option(
            "--strategy",
            type=click.Choice(strategies),
            default=_DEFAULTS.strategy,
            show_default=True,
            help=" ".join(f"{name}: {does[name]}" for name in strategies),
        ),
        click.option(
            "--drafter",
            type=click.Choice(DRAFTERS),
            default=_DEFAULTS.drafter,
            show_default=True,
            help="Who proposes tokens in the speculative strategy. self: the model itself, in its fastest number "
            "format.",
        ),
        click.option(
            "--block-size",
            callback=_block_size,
            metavar="K|own|auto" if block_size == "own" else "K|auto",
            default=block_size,
            show_default=True,
            help=f"Tokens drafted ahead. {block_sizes}",
        ),
        click.option(
            "--beta",
            type=int,
            default=_DEFAULTS.beta,
            show_default=True,
            metavar="B",
            help="Accept a drafted token among the B best of the model, if --tolerance allows.",
        ),
        click.option(
            "--tolerance",
            type=float,
            default=_DEFAULTS.tolerance,
            show_default=True,
            metavar="T",
            help="How far a drafted token's log-probability may lie below the best. 0: the output is exactly that of "
            "greedy.",
        ),
    ]
    return lambda function: _add(options, function)


def _add(options: Sequence[Callable[[Any], Any]], function: F) -> F:
    for option in reversed(options):
        function = option(function)
    return function


def _block_size(_: click.Context, option: click.Parameter, value: str) -> int | str | None:
    """Returns the number that an option names, ``None`` for ``auto``, and ``own`` as it is where that is known."""
    if value == "auto":
        return None
    if value == option.default == "own":
        return value
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(f"must be a whole number or auto, but is {value!r} instead.") from None
