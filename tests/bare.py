"""Checks specmt where nothing is installed but specmt and what it requires: no compiler, no PyTorch, no pytest.

    python tests/bare.py            # with the interpreter of the environment that it is installed in
    python tests/bare.py --write    # stores what the kernels say anew; look at the difference

What the kernels draft and say in int8 is the same on every processor, and stored.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from specmt.decoding.trace import Trace
from specmt.engine.kernels import library
from specmt.models.hub import load_model
from specmt.options import DecodingOptions
from specmt.translator import Translator

SAMPLE: Final = Path(__file__).parents[1] / "data" / "sample.de"
GOLDEN: Final = Path(__file__).parent / "golden" / "kernels.json"
SENTENCES: Final = 12
WAYS: Final = {
    "masked": DecodingOptions(drafter="masked", block_size=10),
    "masked tree": DecodingOptions(drafter="masked", tree="best-first", nodes=12, block_size=10),
    "autoregressive": DecodingOptions(drafter="autoregressive", block_size=5),
}
COMMAND: Final = [str(Path(sys.executable).with_name("specmt"))]
MARKDOWN: Final = "# Titel\n\nDas ist **wichtig**.\n\n- Der Hund schläft.\n"
TRANSLATED: Final = "# title\n\nThis is **important**.\n\n- The dog is sleeping.\n"
MOST_BYTES: Final = 170 << 20
SECONDS: Final = 60
"""What a server has to begin or to end."""


def compact(trace: Trace) -> dict[str, Any]:
    """Returns the ids of a trace."""
    iterations = [
        {
            "nodes": [[node.token, node.parent] for node in iteration.nodes],
            "accepted": iteration.accepted,
            "emitted": iteration.emitted,
        }
        for iteration in trace.iterations
    ]
    return {"source": trace.source, "iterations": iterations, "tokens": trace.tokens}


def traces() -> dict[str, list[dict[str, Any]]]:
    """Returns what the kernels do with the sample, by the way that it is decoded."""
    translator = Translator(load_model(device="cpu", dtype="int8"))
    lines = SAMPLE.read_text(encoding="utf-8").split("\n")[:SENTENCES]
    return {way: [compact(translator.trace(line, options)) for line in lines] for way, options in WAYS.items()}


def run(*arguments: str | Path, text: str = "") -> str:
    """Returns what a command prints that is to succeed."""
    process = subprocess.run([*COMMAND, *map(str, arguments)], input=text, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


def write() -> None:
    """Stores what the kernels say, a trace a line."""
    parts = []
    for way, found in traces().items():
        rows = ",\n".join(json.dumps(trace, separators=(",", ":")) for trace in found)
        parts.append(f'"{way}": [\n{rows}\n]')
    GOLDEN.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def check_environment() -> None:
    """Nothing is there that would hide what is missing."""
    assert not any(importlib.util.find_spec(name) for name in ("torch", "fairseq2", "pytest"))
    assert not any(map(shutil.which, ("cc", "c++", "gcc", "g++", "clang", "clang++"))), "there is a compiler"
    assert "site-packages" in library.__file__, "specmt is not installed, but found beside this"


def check_size() -> None:
    """What is installed is small, without pip and the models."""
    packages = next(each for each in Path(library.__file__).parents if each.name == "site-packages")
    beside = {"pip", "setuptools", "pkg_resources"}
    files = [each for each in packages.rglob("*") if beside.isdisjoint(each.relative_to(packages).parts[:1])]
    size = sum(each.stat().st_blocks * 512 for each in files if "assets" not in each.parts)
    print(f"{len(files)} files and folders, {size / 2**20:.0f} MB")
    assert size <= MOST_BYTES


def check_traces() -> None:
    """Every variant that this processor runs drafts and says what is stored."""
    stored = json.loads(GOLDEN.read_text(encoding="utf-8"))
    assert library.variants(), library.why_absent()
    for variant in library.variants():
        os.environ[library.CHOICE] = variant
        found = traces()
        assert library.variant() == variant
        for way in WAYS:
            assert found[way] == stored[way], (variant, way)
    del os.environ[library.CHOICE]


def check_pipe() -> None:
    """One line, as README has it; and what takes PyTorch says so."""
    assert run("translate", text="Wo ist der Bahnhof?\n") == "Where is the train station?\n"
    environment = os.environ | {library.CHOICE: "none"}
    command = [*COMMAND, "translate"]
    process = subprocess.run(command, input="Ja.\n", env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 69 and "pip install 'specmt[torch]'" in process.stderr, process.stderr
    assert process.stderr.count("\n") == 1, process.stderr


def check_document() -> None:
    """Markdown, of which nothing but the text changes."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "text.md", Path(folder) / "out.md"
        source.write_text(MARKDOWN, encoding="utf-8")
        run("translate", source, "-o", target)
        assert target.read_text(encoding="utf-8") == TRANSLATED


def check_job() -> None:
    """Two shards make the bytes that one run makes, and so do two processes."""
    with tempfile.TemporaryDirectory() as folder:
        whole, shards, processes = (Path(folder) / name for name in ("whole.en", "shards.en", "processes.en"))
        run("translate", SAMPLE, "-o", whole)
        for shard in ("1/2", "2/2"):
            run("translate", SAMPLE, "-o", shards, "--shard", shard)
        run("jobs", "merge", shards)
        run("translate", SAMPLE, "-o", processes, "--processes", "2", "--threads", "1")
        assert shards.read_bytes() == processes.read_bytes() == whole.read_bytes()


@contextmanager
def serving() -> Iterator[str]:
    """Yields where a server is that is ready, which ends as it is asked to."""
    process = subprocess.Popen([*COMMAND, "serve", "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        first = process.stderr.readline()
        found = re.search(r"http://[\d.]+:\d+", first)
        assert found is not None, first
        until = time.monotonic() + SECONDS
        while not is_ready(found[0]):
            assert time.monotonic() < until, "the server was not ready in time"
            time.sleep(0.05)
        yield found[0]
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.communicate()


def is_ready(url: str) -> bool:
    """Returns whether a server answers that it can translate."""
    try:
        with urllib.request.urlopen(f"{url}/readyz") as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError:
        return False


def check_server() -> None:
    """It translates, and identifies languages."""
    with serving() as url:
        for source in ("de", "auto"):
            asked = json.dumps({"q": "Wo ist der Bahnhof?", "source": source, "target": "en"}).encode()
            headers = {"Content-Type": "application/json"}
            with urllib.request.urlopen(urllib.request.Request(f"{url}/translate", asked, headers)) as answer:
                assert json.load(answer)["translatedText"] == "Where is the train station?"


CHECKS: Final[tuple[Callable[[], None], ...]] = (
    check_environment,
    check_size,
    check_traces,
    check_pipe,
    check_document,
    check_job,
    check_server,
)


def main() -> None:
    """Runs all checks; the first that fails ends the run with what it found."""
    if "--write" in sys.argv:
        write()
        return
    for check in CHECKS:
        begun = time.monotonic()
        check()
        print(f"{check.__name__}: {time.monotonic() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    main()
