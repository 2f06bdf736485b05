#!/usr/bin/env python
"""Runs the tests of DeepL's Python library and of LibreTranslate's API against `specmt serve`.

Exit code 1 if others fail than those that scripts/clients.txt names, and those of languages that the models lack.

\b
    git clone https://github.com/DeepLcom/deepl-python; git clone https://github.com/LibreTranslate/LibreTranslate
    python scripts/clients.py deepl-python LibreTranslate
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import Any

import click
import httpx
import pydantic
import pydantic.v1
import pytest
from processes import server

LEFT_OUT = Path(__file__).with_suffix(".txt")
LACKING = re.compile(r"::test_example_translation\[(?!DE|EN)")
"""Tests of languages that the bundled models lack."""

KEY = "sesam"

_folder = click.Path(exists=True, file_okay=False, path_type=Path)


class Tests:
    """Runs tests, and sees how they end."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.ends: dict[str, set[str]] = {"passed": set(), "failed": set(), "skipped": set()}

    def run(self, folder: Path, tests: str, *options: str) -> None:
        """Runs the tests of a program."""
        sys.path.insert(0, str(folder.resolve()))
        pytest.main(
            [f"--rootdir={folder}", "-q", "-c", os.devnull, "-p", "no:cacheprovider", *options, str(folder / tests)],
            [self],
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.ends[report.outcome].add(report.nodeid)

    @pytest.fixture
    def client(self) -> Iterator[Any]:
        """What LibreTranslate's tests ask by: Flask's client. German stands for Spanish, which there is not."""
        with httpx.Client(base_url=self.url, params={"api_key": KEY}) as client:

            def ask(method: str, path: str, **body: Any) -> Any:
                for values in body.values():
                    values |= {"target": "de"} if values.get("target") == "es" else {}
                found = client.request(method, path, **body)
                return SimpleNamespace(status_code=found.status_code, data=found.content, json=found.json())

            yield SimpleNamespace(get=partial(ask, "GET"), post=partial(ask, "POST"))


@click.command(help=__doc__)
@click.argument("deepl", type=_folder)
@click.argument("libretranslate", type=_folder)
def main(deepl: Path, libretranslate: Path) -> None:
    pydantic.BaseSettings = pydantic.v1.BaseSettings  # type: ignore[attr-defined]  # which the tests take from version 1
    package = sys.modules["libretranslate"] = ModuleType("libretranslate")  # whose own modules need all of the program
    package.__path__ = [str(libretranslate / "libretranslate")]
    listed = {line.split()[0] for line in LEFT_OUT.read_text().splitlines() if line and line[0] != "#"}
    failed = set()
    with TemporaryDirectory() as temporary:
        keys = Path(temporary, "keys")
        keys.write_text(f"{KEY}\n")
        with server("--api-keys", str(keys)) as (url, *_):
            os.environ |= {"DEEPL_SERVER_URL": url, "DEEPL_AUTH_KEY": KEY}
            for folder, tests, *options in (
                (deepl, "tests"),
                (libretranslate, "libretranslate/tests/test_api", "--noconftest"),
            ):
                found = Tests(url)
                found.run(folder, tests, *options)
                failed |= {name for name in found.ends["failed"] if not LACKING.search(name)}
                click.echo(f"{folder.name}: " + ", ".join(f"{len(each)} {name}" for name, each in found.ends.items()))
    for name in sorted(failed ^ listed):
        click.echo(f"{name}: {'fails' if name in failed else 'passes, or is not there'}")
    sys.exit(failed != listed)


if __name__ == "__main__":
    main()
