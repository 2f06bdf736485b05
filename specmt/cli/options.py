"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from specmt.errors import UsageError
from specmt.options import DRAFTERS, DTYPES, LIMITS, STRATEGIES, TREES, DecodingOptions, check_threads

F = TypeVar("F", bound=Callable[..., Any])

PATH: Final = click.Path(path_type=Path)

_DEFAULTS: Final = DecodingOptions()
_LOADING: Final = ("source", "target", "device", "dtype", "threads")


def place_options(function: F) -> F:
    """Adds where a model computes: ``loading``, arguments of loaders."""

    @wraps(function)
    def command(**values: Any) -> Any:
        loading = {name: values.pop(name) for name in _LOADING if name in values}
        device = loading["device"]
        check_threads(loading["threads"])
        if re.fullmatch(r"auto|cpu|cuda(:\d+)?", device) is None:
            raise UsageError(f"`device` must be auto, cpu, cuda or cuda:N, but is {device!r} instead.")
        return function(loading=loading, **values)

    dtype = "Number format. auto: int8 on the kernels, else bfloat16 or float32, unless the model says otherwise."
    options = [
        _option("device", "auto", "Where to compute.", metavar="auto|cpu|cuda[:N]"),
        _option("dtype", "auto", dtype, type=click.Choice(DTYPES)),
        _option("threads", None, "CPU threads.  [default: as many as are fastest]", type=int, metavar="N"),
    ]
    return add_options(options, command)  # type: ignore[return-value]


def model_options(function: F) -> F:
    """Adds which model is loaded and where it computes: ``model``, and ``loading``, the other arguments of loaders."""
    name = "Model name or folder.  [default: bundled, for --from and --to]"
    return click.option("--model", metavar="NAME|DIR", help=name)(language_options(place_options(function)))


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
        "beam": "beam search.",
    }
    options = [
        decoding_option(
            "strategy", " ".join(f"{name}: {does[name]}" for name in strategies), type=click.Choice(strategies)
        ),
        decoding_option(
            "drafter",
            "What proposes tokens in the speculative strategy. masked: a decoder that fills a block of [MASK] slots in "
            "one pass. autoregressive: a small decoder, token by token. self: the verifier in its fastest number "
            "format. lookup: n-grams of the source, of earlier output and of --memory. auto: one that the model has. "
            "One of them and lookups: masked+lookup.",
            "|".join(DRAFTERS),
        ),
        decoding_option(
            "memory",
            "Drafts from a translation memory, TSV or TMX (.gz too); the output stays the same.",
            "FILE",
            type=PATH,
        ),
        decoding_option(
            "tree",
            "Shape of drafts. chain: one candidate a position. best-first: the likeliest paths. sampled: paths drawn "
            "without replacement, with --temperature.",
            type=click.Choice(TREES),
        ),
        decoding_option(
            "block_size",
            f"Tokens drafted ahead, at most {LIMITS['block_size']}. {block_sizes}",
            "K|own|auto" if block_size == "own" else "K|auto",
            callback=_count,
            default=block_size,
        ),
        decoding_option(
            "nodes",
            f"Tokens of a best-first tree, at most {LIMITS['nodes']}. auto: chosen by speed.",
            "N|auto",
            callback=_count,
            default="auto",
        ),
        decoding_option("width", "Paths of a sampled tree.", "W"),
        decoding_option(
            "beta",
            "Candidates a position: children of a node in a best-first tree, and the verifier's best tokens that "
            "--tolerance considers.",
            "B",
        ),
        decoding_option(
            "tolerance",
            "How far an accepted token's log-probability may lie below the best. 0: lossless, the output of greedy "
            "decoding.",
            "T",
        ),
        decoding_option("temperature", "Above 0: sample translations from the verifier at this temperature.", "T"),
        decoding_option(
            "shortlist",
            "Compute only the target pieces that the model's vocabulary shortlist (`specmt shortlist`) has for the "
            "source: faster with large vocabularies; output may differ.",
            flag="--shortlist/--no-shortlist",
        ),
        decoding_option("top_k", "Sample from the K best tokens.  [default: all]", "K", type=int),
        decoding_option("seed", "Seed of sampling; a sample depends on it and the line alone.", "S"),
    ]
    return lambda function: add_options(options, function)


def decoding_option(name: str, text: str, metavar: str | None = None, **more: Any) -> Callable[[F], F]:
    """Returns the decorator that adds the option of a field of `DecodingOptions`, with its default."""
    return _option(name, more.pop("default", getattr(_DEFAULTS, name)), text, metavar=metavar, **more)


def number_option(name: str, default: int | None, text: str, *, least: int = 0, metavar: str = "N") -> Callable[[F], F]:
    """Returns the decorator that adds an option with a whole number."""
    return _option(name, default, text, type=click.IntRange(min=least), metavar=metavar)


def _option(name: str, default: object, text: str, *, flag: str = "", **more: Any) -> Callable[[F], F]:
    flag = flag or f"--{name.replace('_', '-')}"
    return click.option(flag, name, default=default, show_default=default is not None, help=text, **more)


def language_options(function: F) -> F:
    """Adds the languages of a model: ``source`` and ``target``, ``None`` where they follow from the model."""
    options = [
        _option(name, None, f"{name.capitalize()} language.  [default: {default}]", flag=f"--{side}", metavar="LANG")
        for name, side, default in (
            ("source", "from", "the model's; de, or what goes with --to"),
            ("target", "to", "the model's; en, or what goes with --from"),
        )
    ]
    return add_options(options, function)


def given_options() -> frozenset[str]:
    """Returns the names of the current command's arguments that the user gave a value."""
    context = click.get_current_context()
    return frozenset(
        name for name in context.params if context.get_parameter_source(name) not in (None, ParameterSource.DEFAULT)
    )


def add_options(options: Sequence[Callable[[Any], Any]], function: F) -> F:
    """Adds options to a command, in the order of its help."""
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
