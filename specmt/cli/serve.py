"""`specmt serve`: translations over HTTP."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specmt import signals
from specmt.cli.console import load, note, show_warnings
from specmt.cli.options import PATH, choice_option, decoding_option, number_option, place_options, value_option
from specmt.errors import ModelError, UsageError
from specmt.options import STRATEGIES, DecodingOptions

if TYPE_CHECKING:
    from specmt.serve.service import Source
    from specmt.translator import Translator


@click.command()
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME|DIR",
    help="Model name or folder; several times for several pairs of languages.  [default: all bundled ones]",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for every one.")
@value_option("port", 5000, "Port to listen on; 0 for any.", type=click.IntRange(0, 65535))
@place_options
@choice_option("strategy", STRATEGIES[:2], "Same output.")
@decoding_option("batch_size", "Most sentences decoded side by side, of each model.", "N")
@click.option(
    "--api-keys",
    type=PATH,
    metavar="FILE",
    help="Let in those alone whose key is in FILE: a key a line and, after a space, how many characters it may send.",
)
@click.option(
    "--allow-origin",
    "allowed",
    multiple=True,
    metavar="ORIGIN",
    help="Let web pages of ORIGIN ask, such as https://example.org, or of every one (*), where there are no keys.",
)
@click.option(
    "--public-url", default="", metavar="URL", help="Where others reach the server, through a proxy or by name."
)
@click.option("--metrics/--no-metrics", default=True, help="Figures for Prometheus at /metrics.  [default: on]")
@click.option("--page/--no-page", default=True, help="Pages at / and /docs.  [default: on]")
@number_option("char_limit", 100_000, "Most characters of a request; 0 for any number.")
@number_option("batch_limit", 1000, "Most texts of a request; 0 for any number.")
@number_option("req_limit", 0, "Most requests a minute, of a key or an address; 0 for any number.")
@number_option("max_queue", 4_000_000, "Refuse requests (429) while so many characters wait for models.", least=1)
@value_option(
    "timeout",
    300.0,
    "Give a request up after so long.",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
)
@number_option("cache_size", 64, "Memory for answers that were given before; 0 keeps none.", metavar="MIB")
@click.option("-q", "--quiet", is_flag=True, help="No log and no notes.")
def serve(
    models: tuple[str, ...],
    host: str,
    port: int,
    strategy: Any,
    batch_size: int,
    api_keys: Path | None,
    allowed: tuple[str, ...],
    public_url: str,
    metrics: bool,
    page: bool,
    char_limit: int,
    batch_limit: int,
    req_limit: int,
    max_queue: int,
    timeout: float,
    cache_size: int,
    quiet: bool,
    loading: dict[str, Any],
) -> None:
    """Serve translations over HTTP: LibreTranslate's contract, a part of DeepL's, and a page to type into.

    An answer is what `specmt translate` says, whatever else is being translated. SIGTERM lets what was begun finish;
    a second one ends the program at once. Without --host, only programs on this machine can reach it. Without
    --threads, one is left to HTTP.

    \b
    Examples:
      specmt serve
      specmt serve --model de-en --model ~/models/opus-fr-en --host 0.0.0.0 --api-keys keys.txt
      curl -d 'q=Guten Morgen&source=de&target=en' http://127.0.0.1:5000/translate
    """
    show_warnings(quiet=quiet)
    options = DecodingOptions(strategy=strategy, batch_size=batch_size)

    from specmt.serve.app import create_app
    from specmt.serve.clients import Keys, Limits
    from specmt.serve.origins import Origins
    from specmt.serve.server import Server, run
    from specmt.serve.service import Service

    origins = Origins(allowed=allowed, public_url=public_url, host=host)
    keys = None if api_keys is None else Keys.read(api_keys)
    limits = Limits(
        characters=char_limit or None,
        texts=batch_limit or None,
        requests=req_limit or None,
        queue=max_queue,
        seconds=timeout,
        cache=cache_size << 20,
    )
    service = Service(_sources(models, loading, quiet=quiet), options, limits, keys=keys)

    def log(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def started(port: int) -> None:
        if not quiet:
            pairs = ", ".join("→".join(pair) for pair in service.languages.pairs)
            note(f"serving {pairs} on http://{host}:{port}/")

    app = create_app(service, log=None if quiet else log, origins=origins, metrics=metrics, page=page)
    if signals.memory_is_full():  # before there are threads, which may end before they begin
        raise MemoryError
    try:
        run(Server(app, host, port, started=started, failed=lambda: service.failure is not None))
    finally:  # it may have ended before it began
        if service.failure is not None:
            raise service.failure


def _sources(models: tuple[str, ...], loading: dict[str, Any], *, quiet: bool) -> list[Source]:
    """Returns the models to serve.

    :raises ModelError: one of them is not there.
    :raises UsageError: two of them are for the same languages.
    """
    from specmt.models.folder import bundled, find
    from specmt.serve.service import Source

    folders = [find(name) for name in models] if models else list(bundled())
    if not folders:
        raise ModelError("There is no bundled model; name one with --model.")
    pairs = [(folder.source, folder.target) for folder in folders]
    if len(set(pairs)) < len(pairs):
        raise UsageError("`--model` must name one model for each pair of languages.")
    return [
        Source(pair, folder.sha256, partial(_load, folder.path, loading, quiet=quiet))
        for pair, folder in zip(pairs, folders, strict=True)
    ]


def _load(path: Path, loading: dict[str, Any], *, quiet: bool) -> Translator:
    from specmt.engine.threads import available, thread_count, use_threads
    from specmt.translator import Translator

    translator = Translator(load(path, quiet=quiet, **loading))
    if loading["threads"] is None and "OMP_NUM_THREADS" not in os.environ:
        use_threads(max(1, min(thread_count(), available() - 1)))  # one is left to HTTP
    return translator
