"""`specmt models`: which models there are, what is in them, and whether they are whole."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from specmt.cli.console import printed
from specmt.cli.options import language_options
from specmt.cli.progress import share_bar
from specmt.errors import ModelError
from specmt.evaluation.tables import Table
from specmt.text.lines import Output
from specmt.text.printable import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from specmt.models.folder import ModelFolder

_BAR: Final = 40
_MEBIBYTE: Final = 2**20


@click.group()
def models() -> None:
    """See the models that there are: those that come with the program, and yours.

    A model folder in ~/.local/share/specmt/models (or $XDG_DATA_HOME/specmt/models) can be named like a bundled one:
    `--model NAME`.

    \b
    Examples:
      specmt models list
      specmt models show de-en
      ls "$(specmt models path de-en)"
      specmt models verify
    """


@models.command("list")
@click.option("--json", "as_json", is_flag=True, help="Write an array of objects.")
def list_(as_json: bool) -> None:
    """List the models that `--model` knows by name."""
    from specmt.models.describe import describe
    from specmt.models.folder import ModelFolder

    found = []
    for path in _places():
        try:
            found.append(describe(ModelFolder.read(path)))
        except ModelError as error:
            click.echo(f"specmt: warning: {printable(str(error))}", err=True)
    _write(_as_json(found) if as_json else _rendered([_list_table(found).rich()]))


@models.command()
@click.argument("model", metavar="[NAME|DIR]", required=False)
@language_options
@click.option("--json", "as_json", is_flag=True, help="Write an object with all of it.")
@click.option("--card", is_flag=True, help="Write the model card instead: data, licences, scores, limits.")
def show(model: str | None, source: str | None, target: str | None, as_json: bool, card: bool) -> None:
    """Show what is in a model: the bundled one for --from and --to, or another.

    Configuration, parameters by part, files, the card's licence and scores, how often drafts are accepted, and what
    this machine runs it on: the C++ kernels, or PyTorch and why.
    """
    from specmt.models.describe import describe, read_card
    from specmt.models.folder import CARD, find

    folder = find(model, source=source, target=target)
    if card:
        text = read_card(folder)
        if not text:
            raise ModelError(f"{folder.path}: the model has no card ({CARD}).")
        _write(printable(text, lines=True))
        return
    found = describe(folder) | {"backend": _backend(folder)}
    _write(_as_json(found) if as_json else _rendered(_shown(found)))


@models.command()
@click.argument("model", metavar="NAME|DIR")
def path(model: str) -> None:
    """Print the folder of a model."""
    from specmt.models.folder import find

    folder = str(find(model).path.resolve())
    # A pipe gets the name as it is.
    _write(f"{printable(folder) if sys.stdout.isatty() else folder}\n")


@models.command()
@click.argument("names", metavar="[NAME|DIR]...", nargs=-1)
@click.option("-q", "--quiet", is_flag=True, help="Nothing but what is wrong.")
def verify(names: tuple[str, ...], quiet: bool) -> None:
    """Compare every file of models, of all by default, with its sha256.

    Exit code 0: all are whole. 69: a model or a file is missing, or is not what it was.
    """
    from specmt.models.folder import ModelFolder, find

    wrong = 0
    found: list[ModelFolder] = []
    for place in names or _places():
        try:
            found.append(find(place) if isinstance(place, str) else ModelFolder.read(place))
        except ModelError as error:
            wrong += _complain(error)
    size = sum(map(_bytes, found)) or 1
    done = 0
    with share_bar(quiet=quiet) as report:

        def advance(count: int) -> None:
            nonlocal done
            done += count
            report(name, done / size)

        for model in found:
            name = printable(model.path.resolve().name)
            damage = 0
            for file in model.files:
                try:
                    model.verified(file, advance)
                except ModelError as error:
                    damage += _complain(error)
            wrong += damage
            if not (damage or quiet):
                _write(f"{name}: {len(model.files)} files, {_bytes(model) / _MEBIBYTE:.1f} MiB, all whole\n")
    if wrong:
        raise click.exceptions.Exit(ModelError.exit_code)


def _places() -> list[Path]:
    """Returns the folders of the models that are known by name, bundled ones first."""
    from specmt.models.folder import ASSETS, folders, user_models

    return [*folders(ASSETS), *folders(user_models())]


def _bytes(model: ModelFolder) -> int:
    paths = map(model.file, model.files)
    return sum(path.stat().st_size for path in paths if path.is_file())


def _complain(error: ModelError) -> int:
    """Reports what is wrong; returns 1, for counting."""
    click.echo(f"specmt: error: {printable(str(error))}", err=True)
    return 1


def _backend(folder: ModelFolder) -> str:
    """Returns what this machine runs a model on by default: the variant of the kernels, or PyTorch and why."""
    from specmt.engine.backends import choose_device
    from specmt.engine.kernels.library import variant, why_absent
    from specmt.engine.kernels.structures import HEAD_DIMS, LANES

    config, device = folder.verifier, choose_device("auto")
    if device != "cpu":
        return f"torch (on {device})"
    if variant() == "none":
        return f"torch (no C++ kernels, because {why_absent()})"
    if config.model_dim % LANES or config.ffn_dim % LANES or config.model_dim // config.num_heads not in HEAD_DIMS:
        return "torch (the C++ kernels are not made for the sizes of this model)"
    return f"kernels ({variant()})"


def _list_table(found: list[dict[str, Any]]) -> Table:
    rows = [
        (
            printable(each["name"]),
            f"{each['source']}→{each['target']}",
            f"{sum(file['bytes'] for file in each['files'].values()) / _MEBIBYTE:.1f} MiB",
            _millions(sum(each["verifier"]["parameters"].values())),
            ", ".join(f"{kind} {_millions(sum(d['parameters'].values()))}" for kind, d in each["drafters"].items())
            or "none",
            each["from"],
        )
        for each in found
    ]
    return Table("", ("model", "direction", "size", "parameters", "drafters", "from"), rows)


def _shown(found: dict[str, Any]) -> Iterator[RenderableType]:
    networks = {"verifier": found["verifier"]} | {f"{kind} drafter": d for kind, d in found["drafters"].items()}
    name, path = printable(found["name"]), printable(found["path"])
    yield f"{name}: {found['source']}→{found['target']}, from {found['from']}\n{path}"
    licence = printable(found["licence"] or "the model card names none")
    placeholders = "masked (--protect)" if found["protect"] else "passed to the model (--no-protect)"
    yield f"Licence: {licence}\nBackend: {found['backend']}\nPlaceholders: {placeholders}"
    yield _by_network("Configuration", {name: each["config"] for name, each in networks.items()}, _value).rich()
    counts = {name: each["parameters"] for name, each in networks.items()}
    title = "Parameters: " + ", ".join(f"{name} {_millions(sum(each.values()))}" for name, each in counts.items())
    yield _by_network(title, counts, lambda count: f"{count:,}").rich()
    if found["shortlist"]:
        learnt = [(name, _value(value)) for name, value in found["shortlist"].items()]
        yield Table("Shortlist", ("", ""), learnt).rich()
    files = [(name, f"{each['bytes']:,}", each["sha256"]) for name, each in found["files"].items()]
    yield Table("Files", ("file", "bytes", "sha256"), files).rich()
    if found["imported"]:
        digests = [(printable(name), printable(digest)) for name, digest in found["imported"].items()]
        yield Table("Imported from", ("file", "sha256"), digests).rich()
    if found["scores"]:
        columns = tuple(found["scores"][0])
        rows = [[printable(row.get(column, "")) for column in columns] for row in found["scores"]]
        yield Table("Scores, as the model card has them", tuple(map(printable, columns)), rows).rich()
    for kind, drafter in found["drafters"].items():
        if "calibration" in drafter:
            title = f"How often drafts of the {kind} drafter were accepted up to each position, when it was calibrated"
            yield "\n".join([title, *_bars(drafter["calibration"]["acceptance"])])


def _by_network(title: str, columns: Mapping[str, Mapping[str, Any]], text: Callable[[Any], str]) -> Table:
    """Returns a table with a column for each network and a row for what any of them has."""
    keys = dict.fromkeys(key for column in columns.values() for key in column)
    rows = [(key, *(text(column[key]) if key in column else "" for column in columns.values())) for key in keys]
    return Table(title, ("", *columns), rows)


def _bars(shares: list[float]) -> Iterator[str]:
    """Yields a bar for each share, to an eighth of a character."""
    for position, share in enumerate(shares, 1):
        eighths = round(share * _BAR * 8)
        bar = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8]
        yield f"{position:3}  {share:6.1%}  {bar.rstrip()}"


def _millions(count: int) -> str:
    return f"{count / 1e6:.1f} M"


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


def _as_json(record: object) -> str:
    # JSON escapes C0 itself; the rest of what a terminal may obey is escaped as JSON does.
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    return re.sub("[\x7f-\x9f\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _rendered(parts: Iterable[RenderableType]) -> str:
    def write(console: Console) -> None:
        for number, part in enumerate(parts):
            if number:
                console.print()
            console.print(part, markup=False)

    return printed(write)


def _write(text: str) -> None:
    with Output(None) as out:
        out.write(text)
