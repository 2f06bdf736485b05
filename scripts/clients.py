#!/usr/bin/env python
"""Runs the tests of DeepL's Python library and of LibreTranslate's API against `specmt serve`.

Exit code 1 if others fail than those that scripts/clients.txt names.

\b
    git clone https://github.com/DeepLcom/deepl-python; git clone https://github.com/LibreTranslate/LibreTranslate
    python scripts/clients.py deepl-python LibreTranslate
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
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

LEFT_OUT = Path(__file__).with_suffix(".txt")
KEY = "sesam"

_folder = click.Path(exists=True, file_okay=False, path_type=Path)


@contextmanager
def serving() -> Iterator[str]:
    """Yields the address of a server that is ready."""
    with TemporaryDirectory() as folder:
        keys, log = Path(folder) / "keys", Path(folder) / "log"
        keys.write_text(f"{KEY}\n")
        command = [sys.executable, "-m", "specmt", "serve", "--port", "0", "--api-keys", str(keys)]
        with log.open("w") as file, subprocess.Popen(command, stderr=file) as process:
            try:
                while not (found := re.search(r"http://[^\s/]+", log.read_text())):
                    time.sleep(0.1)
                while httpx.get(f"{found[0]}/readyz").status_code != 200:
                    time.sleep(0.1)
                yield found[0]
            finally:
                process.terminate()


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
    with serving() as url:
        os.environ |= {"DEEPL_SERVER_URL": url, "DEEPL_AUTH_KEY": KEY}
        for folder, tests, *options in (
            (deepl, "tests"),
            (libretranslate, "libretranslate/tests/test_api", "--noconftest"),
        ):
            found = Tests(url)
            found.run(folder, tests, *options)
            failed |= found.ends["failed"]
            click.echo(f"{folder.name}: " + ", ".join(f"{len(each)} {name}" for name, each in found.ends.items()))
    for name in sorted(failed ^ listed):
        click.echo(f"{name}: {'fails' if name in failed else 'passes, or is not there'}")
    sys.exit(failed != listed)


if __name__ == "__main__":
    main()
