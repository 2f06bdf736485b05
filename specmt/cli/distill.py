"""`specmt distill`: the verifier's output over a corpus, as training data for a drafter."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--model", required=True, help="Model folder or name.")
@click.option("--limit", type=int, help="The most sentences, taken at even distances.")
@click.option("--max-length", default=100, show_default=True, help="Leave out sentences with more pieces.")
@click.option("--batch-size", default=64, show_default=True, help="Sentences side by side.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu or cuda[:i].")
@click.option("--dtype", default="auto", show_default=True, help="auto, float32, bfloat16 or float16.")
@click.option("--threads", type=int, help="CPU threads; all by default.")
def distill(
    folder: Path,
    files: tuple[Path, ...],
    model: str,
    limit: int | None,
    max_length: int,
    batch_size: int,
    device: str,
    dtype: str,
    threads: int | None,
) -> None:
    """Write the model's greedy output over source-language FILES into FOLDER; a second call goes on.

    \b
    Example:
      specmt distill runs/distilled corpus.de.gz --model runs/verifier/model --limit 100000
    """
    from specmt.cli.progress import counting_bar
    from specmt.models.hub import load_model
    from specmt.training.distill import distill as run

    loaded = load_model(model, device=device, dtype=dtype, threads=threads)
    with counting_bar("distilling") as report:
        pairs = run(folder, loaded, files, limit=limit, max_length=max_length, batch_size=batch_size, report=report)
    click.echo(f"{folder}: {pairs} pairs", err=True)
