#!/usr/bin/env python
"""Translates made-up hostile lines with the bundled models and prints what does not hold of them, by kind.

With --settings it prints instead how many of their translations are not the same in every setting.

Usage: PYTHONPATH=. python scripts/robustness.py [OPTIONS]
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import click
import httpx

from specmt.options import DecodingOptions
from specmt.serve.clients import Limits
from specmt.translator import Translator
from tests.golden.hostile import KINDS, find_faults, made
from tests.golden.robustness import LISTED, listed
from tests.serving import serving

Translate = Callable[[list[str]], list[str]]
CLIENTS = 24


@click.command(help=__doc__)
@click.option("--source", "sources", type=click.Choice(["de", "en"]), multiple=True, default=["de", "en"])
@click.option("--kind", "kinds", type=click.Choice([*KINDS]), multiple=True, default=[*KINDS])
@click.option("--lines", default=1000, show_default=True, help="Of each kind.")
@click.option("--seed", default=1, show_default=True)
@click.option("--settings", is_flag=True, help="Compare settings, over 2,000 lines.")
def main(sources: list[str], kinds: list[str], lines: int, seed: int, settings: bool) -> None:
    for source in sources:
        if settings:
            compare(source, hostile(source, 2000, seed))
            continue
        translator = Translator.from_pretrained(source=source)
        for kind in kinds:
            found = find_faults(translator, made(source, kind, lines, seed), DecodingOptions())
            click.echo(f"{source}\t{kind}\t{lines}\t{len(found)}")
            for fault in found:
                click.echo(f"    {', '.join(fault.what)}: {fault.line!r} → {fault.translation!r}")


def hostile(source: str, count: int, seed: int) -> list[str]:
    """Returns lines of all kinds, mixed."""
    share = -(-count // (len(KINDS) + len(LISTED)))
    lines = [each.line for kind in KINDS for each in made(source, kind, share, seed)]
    lines += [line for kind in LISTED for line, _ in islice(listed(source, kind, seed), share)]
    random.Random(seed).shuffle(lines)
    return lines[:count]


def compare(source: str, lines: list[str]) -> None:
    """Prints how many translations differ from those of greedy decoding, by setting."""
    wanted: list[str] = []
    for name, translate in settings_of(source):
        said = translate(lines)
        wanted = wanted or said
        different = [place for place, (one, other) in enumerate(zip(wanted, said, strict=True)) if one != other]
        click.echo(f"{source}\t{name}\t{len(lines)}\t{len(different)}")
        for place in different[:10]:
            click.echo(f"    {lines[place]!r} → {wanted[place]!r}, {said[place]!r}")


def settings_of(source: str) -> Iterator[tuple[str, Translate]]:
    """Yields settings, and what translates in each."""
    one, two = (Translator.from_pretrained(source=source, threads=threads) for threads in (1, 2))

    def translate(translator: Translator, options: DecodingOptions) -> Translate:
        return lambda lines: [each.text for each in translator.translate(lines, options)]

    yield "greedy", translate(one, DecodingOptions(strategy="greedy"))
    yield "auto", translate(one, DecodingOptions())
    yield "batch 1", translate(one, DecodingOptions(batch_size=1))
    yield "batch 32", translate(one, DecodingOptions(batch_size=32))
    yield "1 thread", translate(one, DecodingOptions(drafter="masked"))
    yield "2 threads", translate(two, DecodingOptions(drafter="masked"))
    yield "server under load", lambda lines: ask(two, lines)


def ask(translator: Translator, lines: list[str]) -> list[str]:
    """Returns what a server says that many clients ask at a time."""
    source, target = translator.model.languages
    with serving(lambda: translator, pairs=[(source, target)], limits=Limits(cache=0)) as server:

        def answers(lines: list[str]) -> list[str]:
            with httpx.Client(base_url=server.base_url, timeout=600) as client:
                asked = ({"q": line, "source": source, "target": target} for line in lines)
                replies = [client.post("/translate", json=each).raise_for_status() for each in asked]
            return [str(each.json()["translatedText"]) for each in replies]

        said = [""] * len(lines)
        with ThreadPoolExecutor(CLIENTS) as pool:
            for number, part in enumerate(pool.map(answers, (lines[each::CLIENTS] for each in range(CLIENTS)))):
                said[number::CLIENTS] = part
    return said


if __name__ == "__main__":
    main()
