"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from specmt.errors import UsageError
from specmt.options import DRAFTERS, DTYPES, LIMITS, STRATEGIES, TREES, DecodingOptions, check_threads

F = TypeVar("F", bound=Callable[..., Any])

_DEFAULTS: Final = DecodingOptions()
_LOADING: Final = ("source", "target", "device", "dtype", "threads")


def model_options(function: F) -> F:
    """Adds which model is loaded and where it computes: ``model``, and ``loading``, the other arguments of loaders."""

    @wraps(function)
    def command(**values: Any) -> Any:
        loading = {name: values.pop(name) for name in _LOADING}
        device = loading["device"]
        check_threads(loading["threads"])
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
            default=_DEFAULTS.drafter,
            show_default=True,
            metavar="|".join(DRAFTERS),
            help="What proposes tokens in the speculative strategy. masked: a decoder that fills a block of [MASK] "
            "slots in one pass. autoregressive: a small decoder, token by token. self: the verifier in its fastest "
            "number format. lookup: n-grams of the source, of earlier output and of --memory. auto: one that the model "
            "has. Several together: joined by +.",
        ),
        click.option(
            "--memory",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Drafts from a translation memory, TSV or TMX (.gz too); the output stays the same.",
        ),
        click.option(
            "--tree",
            type=click.Choice(TREES),
            default=_DEFAULTS.tree,
            show_default=True,
            help="Shape of drafts. chain: one candidate a position. best-first: the likeliest paths. sampled: paths "
            "drawn without replacement, with --temperature.",
        ),
        click.option(
            "--block-size",
            callback=_count,
            metavar="K|own|auto" if block_size == "own" else "K|auto",
            default=block_size,
            show_default=True,
            help=f"Tokens drafted ahead, at most {LIMITS['block_size']}. {block_sizes}",
        ),
        click.option(
            "--nodes",
            callback=_count,
            metavar="N|auto",
            default="auto",
            show_default=True,
            help=f"Tokens of a best-first tree, at most {LIMITS['nodes']}. auto: chosen by speed.",
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
            help="Candidates a position: children of a node in a best-first tree, and the verifier's best tokens that "
            "--tolerance considers.",
        ),
        click.option(
            "--tolerance",
            type=float,
            default=_DEFAULTS.tolerance,
            show_default=True,
            metavar="T",
            help="How far an accepted token's log-probability may lie below the best. 0: lossless, the output of "
            "greedy decoding.",
        ),
        click.option(
            "--temperature",
            type=float,
            default=_DEFAULTS.temperature,
            show_default=True,
            metavar="T",
            help="Above 0: sample translations from the verifier at this temperature.",
        ),
        click.option(
            "--shortlist/--no-shortlist",
            default=_DEFAULTS.shortlist,
            show_default=True,
            help="Compute only the target pieces that the model's vocabulary shortlist (`specmt shortlist`) has for "
            "the source: faster with large vocabularies; output may differ.",
        ),
        click.option("--top-k", type=int, metavar="K", help="Sample from the K best tokens.  [default: all]"),
        click.option(
            "--seed",
            type=int,
            default=_DEFAULTS.seed,
            show_default=True,
            metavar="S",
            help="Seed of sampling; a sample depends on it and the line alone.",
        ),
    ]
    return lambda function: _add(options, function)


def given_options() -> frozenset[str]:
    """Returns the names of the current command's arguments that the user gave a value."""
    context = click.get_current_context()
    return frozenset(
        name for name in context.params if context.get_parameter_source(name) not in (None, ParameterSource.DEFAULT)
    )


def check_languages(languages: tuple[str, str], loading: dict[str, Any], given: Collection[str]) -> None:
    """
    :param languages: those of the model
    :raises UsageError: other languages were asked for.
    """
    for option, name, actual in zip(("from", "to"), ("source", "target"), languages, strict=True):
        if name in given and loading[name] != actual:
            wanted = f"{loading[name]!r} instead"
            raise UsageError(f"`{option}` must be {actual}, as the model is {'-'.join(languages)}, but is {wanted}.")


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
