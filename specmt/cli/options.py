"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from specmt.errors import UsageError
from specmt.options import DRAFTERS, DTYPES, STRATEGIES, TREES, DecodingOptions

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
        click.option("--threads", type=int, metavar="N", help="CPU threads.  [default: as many as are fastest]"),
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
            metavar="|".join(DRAFTERS),
            help="Who proposes tokens in the speculative strategy. masked: a network that fills a block of slots at "
            "once. autoregressive: a small one that goes token by token. self: the model itself, in its fastest number "
            "format. lookup: what was said before, here, in --memory or in the source. With +, several together.  "
            "[default: masked, or lookup where the model has no such network]",
        ),
        click.option(
            "--memory",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="A translation memory, TSV or TMX (.gz too): its translations are proposed as drafts; the output "
            "stays the same.",
        ),
        click.option(
            "--tree",
            type=click.Choice(TREES),
            default=_DEFAULTS.tree,
            show_default=True,
            help="What is drafted. chain: one token a position. best-first: the likeliest paths. sampled: for "
            "--temperature, paths drawn without replacement.",
        ),
        click.option(
            "--block-size",
            callback=_count,
            metavar="K|own|auto" if block_size == "own" else "K|auto",
            default=block_size,
            show_default=True,
            help=f"Tokens drafted ahead. {block_sizes}",
        ),
        click.option(
            "--nodes",
            callback=_count,
            metavar="N|auto",
            default="auto",
            show_default=True,
            help="Most tokens of a best-first tree. auto: as many as yield most on this machine, up to 24.",
        ),
        click.option(
            "--width",
            type=int,
            default=_DEFAULTS.width,
            show_default=True,
            metavar="W",
            help="Paths of a sampled tree.",
        ),
        click.option(
            "--beta",
            type=int,
            default=_DEFAULTS.beta,
            show_default=True,
            metavar="B",
            help="Candidates of a position: those that may follow a token in a best-first tree, and those of the model "
            "that a drafted token may be among, if --tolerance allows.",
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
        click.option(
            "--temperature",
            type=float,
            default=_DEFAULTS.temperature,
            show_default=True,
            metavar="T",
            help="Above 0, draw translations from the model at this temperature instead of taking the best.",
        ),
        click.option(
            "--shortlist/--no-shortlist",
            default=_DEFAULTS.shortlist,
            show_default=True,
            help="Choose among the pieces that the model's shortlist (`specmt shortlist`) allows for the source: "
            "faster with large vocabularies; output may differ from that of the whole.",
        ),
        click.option("--top-k", type=int, metavar="K", help="Draw from the K best tokens alone.  [default: from all]"),
        click.option(
            "--seed",
            type=int,
            default=_DEFAULTS.seed,
            show_default=True,
            metavar="S",
            help="What is drawn depends on it, on the line and on nothing else.",
        ),
    ]
    return lambda function: _add(options, function)


def _add(options: Sequence[Callable[[Any], Any]], function: F) -> F:
    for option in reversed(options):
        function = option(function)
    return function


def _count(_: click.Context, option: click.Parameter, value: str) -> int | str | None:
    """Returns the number that an option names, ``None`` for ``auto``, and ``own`` as it is where that is known."""
    if value == "auto":
        return None
    if value == option.default == "own":
        return value
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(f"must be a whole number or auto, but is {value!r} instead.") from None
