"""Asks Bergamot's own engine, the one in Firefox: python3.10 bergamot.py FOLDER PRECISION [--shortlist] < lines

The package bergamot 0.4.5 has binaries up to Python 3.10, and no later one does. What it imports at its start asks a
server, so that the library is loaded by its path. Prints the pieces of each translation as JSON, a line each. Every
line is a batch of its own: what may be said with a shortlist depends on the batch there. With --rounds, all lines are
translated at once, in batches as the engine likes, and what is printed is, for each round, the seconds and the pieces.
"""

import argparse
import importlib.util
import json
import sys
import sysconfig
import time
from pathlib import Path

CONFIG = """
relative-paths: false
models: [{folder}/model.bin]
vocabs: [{folder}/{source}, {folder}/{target}]
shortlist: [{shortlist}]
ssplit-mode: sentence
beam-size: 1
normalize: 0
word-penalty: 0
max-length-break: 128
max-length-factor: 2.0
mini-batch-words: 1024
workspace: 128
skip-cost: true
cpu-threads: 0
quiet: true
quiet-translation: true
gemm-precision: {precision}
"""


def load():
    """Returns the engine's module."""
    library = next(Path(sysconfig.get_paths()["platlib"]).glob("bergamot/_bergamot*.so"))
    spec = importlib.util.spec_from_file_location("_bergamot", library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words(said):
    """Returns the pieces of a translation."""
    return [said.word(i, j) for i in range(said.numSentences()) for j in range(said.numWords(i))]


def main(folder: str, precision: str, shortlist: bool, rounds: int, workers: int) -> None:
    """Translates standard input."""
    bergamot, place = load(), Path(folder).resolve()
    names = ("vocab.spm", "vocab.spm") if (place / "vocab.spm").exists() else ("srcvocab.spm", "trgvocab.spm")
    config = CONFIG.format(
        folder=place,
        source=names[0],
        target=names[1],
        shortlist=f"{place}/lex.s2t.bin, true" if shortlist else "",
        precision=precision,
    )
    service = bergamot.Service(bergamot.ServiceConfig(numWorkers=workers, cacheSize=0, logLevel="off"))
    model = service.modelFromConfig(config.replace("shortlist: []\n", ""))
    lines = sys.stdin.buffer.read().decode().splitlines()

    def translate(some):
        return service.translate(model, bergamot.VectorString(some), bergamot.ResponseOptions())

    for _ in range(rounds):
        start = time.perf_counter()
        found = translate(lines)
        seconds = time.perf_counter() - start
        print(json.dumps([seconds, sum(len(words(each.target)) for each in found)]), flush=True)
    for line in [] if rounds else lines:
        print(json.dumps(words(translate([line])[0].target)), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("precision")
    parser.add_argument("--shortlist", action="store_true")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    main(**vars(parser.parse_args()))
