"""`specmt import firefox|marian|nllb`: other people's models as model folders of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specmt.cli.progress import spinner
from specmt.text.printable import printable

if TYPE_CHECKING:
    from specmt.models.folder import ModelFolder


@click.group("import")
def import_() -> None:
    """Turn a model of another program into a model folder; a drafter can then be trained for it."""


@import_.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--from", "source_language", help="Source language; default: from the model's name or files.")
@click.option("--to", "target_language", help="Target language; default: from the model's name or files.")
def firefox(sources: tuple[str, ...], folder: Path, source_language: str | None, target_language: str | None) -> None:
    """Write a translation model of Firefox's as model FOLDER.

    SOURCE is a folder with the files of one model, or these files: model.*.bin, vocab.*.spm (or srcvocab and trgvocab),
    and lex.*.s2t.bin if it is there; as Mozilla publishes them, .gz and .zst included, or as translateLocally keeps
    them.

    \b
    Examples:
      specmt import firefox downloads/de-en runs/de-en
      specmt import firefox model.deen.intgemm.alphas.bin.gz vocab.deen.spm.gz lex.50.50.deen.s2t.bin.gz runs/de-en
    """
    from specmt.models.interop.firefox import import_firefox

    _run(import_firefox, sources, folder, languages=(source_language, target_language))


@import_.command()
@click.argument("source")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--from", "source_language", help="Source language; default: from the model's name or files.")
@click.option("--to", "target_language", help="Target language; default: from the model's name or files.")
@click.option(
    "--target-token", help="Token that selects the target of a multilingual model, such as '>>deu<<'; default: by --to."
)
def marian(
    source: str, folder: Path, source_language: str | None, target_language: str | None, target_token: str | None
) -> None:
    """Write Marian model SOURCE as model FOLDER.

    SOURCE is a folder with an OPUS-MT model, of Hugging Face or of Marian itself, one of Marian's .npz files, or a name
    on the Hugging Face Hub.

    \b
    Example:
      specmt import marian Helsinki-NLP/opus-mt-de-en runs/opus-de-en
      specmt import marian downloads/opus-mt-en-gem runs/en-de --from en --to de
    """
    from specmt.models.interop.marian import import_marian

    _run(import_marian, source, folder, languages=(source_language, target_language), token=target_token)


@import_.command()
@click.argument("source")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--from", "source_language", required=True, metavar="LANG", help="Source language: deu_Latn or de.")
@click.option("--to", "target_language", required=True, metavar="LANG", help="Target language: eng_Latn or en.")
def nllb(source: str, folder: Path, source_language: str, target_language: str) -> None:
    """Write one direction of NLLB or M2M100 model SOURCE as model FOLDER.

    SOURCE is a folder with a model of Hugging Face or a checkpoint of fairseq2, a name on the Hugging Face Hub, or the
    name of one of fairseq2's models. Languages are the model's own codes, or short ones where these mean one of them.

    \b
    Example:
      specmt import nllb facebook/nllb-200-distilled-600M runs/nllb-de-en --from deu_Latn --to eng_Latn
      specmt import nllb nllb-200_dense_distill_600m runs/nllb-fr-de --from fr --to de
    """
    from specmt.models.interop.nllb import import_nllb

    _run(import_nllb, source, folder, languages=(source_language, target_language))


def _run(read: Callable[..., ModelFolder], source: str | tuple[str, ...], folder: Path, **how: Any) -> None:
    with spinner("importing") as report:
        model = read(source, folder, progress=report, **how)
    click.echo(f"{printable(str(folder))}: {model.source}→{model.target}", err=True)
