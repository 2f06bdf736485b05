"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from specmt.errors import UsageError
from specmt.formats.dialects import DIALECTS
from specmt.options import DRAFTERS, DTYPES, LIMITS, STRATEGIES, TREES, DecodingOptions, check_threads

if TYPE_CHECKING:
    from specmt.cli.tasks import Task

F = TypeVar("F", bound=Callable[..., Any])

PATH: Final = click.Path(path_type=Path)
FOLDER: Final = click.Path(path_type=Path, file_okay=False)
FILE: Final = click.Path(path_type=Path, dir_okay=False)

ANCHORS: Final = ("auto", "explicit", "rewrite", "keep")
_DEFAULTS: Final = DecodingOptions()
_LOADING: Final = ("source", "target", "device", "dtype", "threads", "deterministic")
_LINES_ONLY: Final = ("errors", "scores", "alignments", "n_best", "wrapped")


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
        value_option("device", "auto", "Where to compute.", metavar="auto|cpu|cuda[:N]"),
        value_option("dtype", "auto", dtype, type=click.Choice(DTYPES)),
        value_option("threads", None, "CPU threads.  [default: as many as are fastest]", type=int, metavar="N"),
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
            "Drafts from a translation memory, TSV, TMX (.gz too), PO, XLIFF, TS or xcstrings; same output.",
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
    return value_option(name, more.pop("default", getattr(_DEFAULTS, name)), text, metavar=metavar, **more)


def number_option(name: str, default: int | None, text: str, *, least: int = 0, metavar: str = "N") -> Callable[[F], F]:
    """Returns the decorator that adds an option with a whole number."""
    return value_option(name, default, text, type=click.IntRange(min=least), metavar=metavar)


def choice_option(name: str, choices: Sequence[str], text: str, *, flag: str = "") -> Callable[[F], F]:
    """Returns the decorator that adds an option with one of several values, the first by default."""
    return value_option(name, choices[0], text, flag=flag, type=click.Choice(choices))


def value_option(name: str, default: object, text: str, *, flag: str = "", **more: Any) -> Callable[[F], F]:
    """Returns the decorator that adds an option and shows its default, unless that is ``None``."""
    flag = flag or f"--{name.replace('_', '-')}"
    return click.option(flag, name, default=default, show_default=default is not None, help=text, **more)


def language_options(function: F) -> F:
    """Adds the languages of a model: ``source`` and ``target``, ``None`` where they follow from the model."""
    default = "[default: the model's; {}, or what goes with {}]"
    source, target = default.format("de", "--to"), default.format("en", "--from")
    options = [
        click.option("--from", "source", metavar="LANG", help=f"Source language.  {source}"),
        click.option("--to", "target", metavar="LANG", help=f"Target language.  {target}"),
    ]
    return add_options(options, function)


def given_options() -> frozenset[str]:
    """Returns the names of the current command's arguments that the user gave a value."""
    context = click.get_current_context()
    return frozenset(
        name for name in context.params if context.get_parameter_source(name) not in (None, ParameterSource.DEFAULT)
    )


@dataclass(frozen=True, kw_only=True)
class DocumentOptions:
    """The options that documents alone have."""

    file_format: str | None
    retranslate_fuzzy: bool
    everything: bool
    fuzzy: bool
    fuzzy_below: float | None = None
    exact: bool
    column: tuple[str, ...]
    key: tuple[str, ...]
    keep: tuple[str, ...] = ()
    dialect: str
    anchors: Any
    report: Path | None
    memories: tuple[Path, ...] = ()
    """Those of a project, instead of the option."""


DOCUMENT_NAMES: Final = tuple(each.name for each in fields(DocumentOptions))


fuzzy_below_option: Final = click.option(
    "--fuzzy-below",
    type=click.FloatRange(0.0, 1.0),
    metavar="P",
    help="Mark only those that are less likely to be acceptable than P, from 0 to 1.",
)


def document_options(function: F) -> F:
    """Adds the options that documents alone have, as ``documents``."""

    @wraps(function)
    def command(**values: Any) -> Any:
        given = {name: values.pop(name) for name in DOCUMENT_NAMES if name in values}
        return function(documents=DocumentOptions(**given), **values)

    options = [
        click.option(
            "--file-format",
            metavar="FORMAT",
            help="Read documents of this format, whatever the name.  [default: by suffix; else lines of text]",
        ),
        click.option("--retranslate-fuzzy", is_flag=True, help="Translate anew what is marked to be reviewed."),
        click.option("--all", "everything", is_flag=True, help="Translate anew what has a translation."),
        value_option("fuzzy", True, "Mark translations for review, in catalogues.", flag="--fuzzy/--no-fuzzy"),
        fuzzy_below_option,
        value_option(
            "exact",
            True,
            "Take over what --memory has for the very same text, in documents.",
            flag="--exact/--no-exact",
        ),
        click.option(
            "--column",
            multiple=True,
            metavar="NAME[=NAME]",
            help="A column of CSV or TSV that is translated, in place or into the other one; by name or number.",
        ),
        click.option(
            "--key", multiple=True, metavar="NAME", help="A key of Markdown's front matter that is translated."
        ),
        click.option(
            "--keep",
            multiple=True,
            metavar="ELEMENT",
            help="An element of XML or HTML that stays as it is, as code does.",
        ),
        choice_option(
            "dialect", DIALECTS, "The site that Markdown is for. auto: as the nearest configuration of a site says."
        ),
        choice_option(
            "anchors",
            ANCHORS,
            "Links to headings of Markdown: keep the old ids as {#id}, rewrite the links, or leave both. auto: "
            "explicit where the dialect can.",
        ),
        click.option("--report", type=PATH, metavar="FILE", help="Write a page on what was done, as HTML."),
    ]
    return add_options(options, command)  # type: ignore[return-value]


def check_documents(tasks: Sequence[Task], given: Collection[str], format_: str) -> None:
    """
    :param given: the names of the options that the user gave a value
    :raises UsageError: options mean nothing for documents, or only for documents.
    """
    if tasks and format_ != "text":
        raise UsageError(f"`format` must be text for documents, but is {format_!r} instead.")
    for name in _LINES_ONLY if tasks else DOCUMENT_NAMES:
        if name in given:
            shown = "--all" if name == "everything" else f"`{name}`"
            raise UsageError(f"{shown} has no effect with {'documents' if tasks else 'lines of text'}; leave it out.")


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
