"""Runs the C++ kernels under sanitizers (GCC): addresses and undefined behaviour, then threads.

    PYTHONPATH=. python scripts/sanitize.py [VARIANT…]

Networks compute what they hardly ever do (`odd_shapes.py`); then a bundled model decodes, and the same with SSRUs in
its decoder. Whatever a sanitizer reports ends the run with its report and exit code 1. On two processors the networks
take half an hour for each variant, all of it hours; by default those of the most and of the least instructions that
this machine runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path

from specmt.engine.kernels import header
from specmt.engine.kernels.library import CHOICE, variants

ROOT = Path(__file__).parents[1]
BUNDLED = ROOT / "specmt/assets/de-en"
TOY = ROOT / "tests/toy"
SOURCES = ROOT / "specmt/engine/kernels/csrc"
# Without -fwrapv, which Python's own flags carry. Threads are checked without the others: they exclude each other.
BUILDS = {"address,undefined": "libasan.so", "thread": "libtsan.so"}
EXCEPTIONS = "libstdc++.so.6"  # loaded with the sanitizer, which finds no exceptions otherwise
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter's
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "ignore_noninstrumented_modules=1 exitcode=1",
    "OMP_NUM_THREADS": "2",
}
WAYS = [
    {"strategy": "greedy"},
    {"strategy": "greedy", "alignments": True},
    {"strategy": "beam", "beam_size": 3, "n_best": 3},
    {"drafter": "masked", "block_size": 5, "beta": 3, "tolerance": 1.0},
    {"strategy": "greedy", "scores": True, "shortlist": True},
    {"drafter": "masked", "block_size": 5},
    {"drafter": "masked", "block_size": 5, "tree": "best-first", "nodes": 12, "scores": True},
    {"drafter": "masked", "tree": "best-first", "shortlist": True},
    {"drafter": "autoregressive", "block_size": 4},
    {"drafter": "autoregressive", "block_size": 4, "tree": "best-first", "nodes": 12},
    {"drafter": "autoregressive", "tree": "best-first"},
    {"drafter": "self", "block_size": 8},
    {"drafter": "masked", "tree": "sampled", "temperature": 1.0, "width": 3, "block_size": 3},
]
TERMS = {"der": ["this one"], "Sie": ["one", "you all"], "und": ["plus"], "werden": ["shall be"], "um": ["so as"]}
"""For a glossary: nothing that is said freely."""


def work(models: Sequence[str]) -> None:
    """Decodes a few lines by every strategy, and runs out of memory again and again."""
    import odd_shapes

    from specmt.engine.kernels import backend, library
    from specmt.models.hub import load_model
    from specmt.options import DecodingOptions
    from specmt.translator import Translator

    kernels = library.kernels()
    if kernels is None:
        sys.exit(f"There are no kernels, because {library.why_absent()}.")
    odd_shapes.run(models[2:])
    vars(backend)["NARROW"] = 0  # drafters of codes, which wide ones are
    lines = (ROOT / "data/sample.de").read_text(encoding="utf-8").split("\n")[:5]
    for model, dtype in product(models[:2], ("float32", "bfloat16", "int8")):
        translator = Translator(load_model(Path(model), dtype=dtype, threads=2))
        for way, terms in [(way, None) for way in WAYS] + [({}, TERMS), ({"strategy": "greedy"}, TERMS)]:
            for batch_size in (1, 5):
                some = lines if batch_size > 1 else lines[:2]
                options = DecodingOptions(batch_size=batch_size, **way)  # type: ignore[arg-type]
                wanted = [each.text for each in translator.translate(some, options, glossary=terms)]
                for number in (1, 7, 30, 60):
                    kernels.specmt_fail_allocation(number)
                    with suppress(MemoryError):  # a sentence alone is not tried again
                        if [each.text for each in translator.translate(some, options, glossary=terms)] != wanted:
                            sys.exit(f"{way} said something else after an allocation had failed.")
                kernels.specmt_fail_allocation(0)
            print(kernels.variant, Path(model).name, dtype, way, "with terms" * (terms is not None), flush=True)


def main() -> None:
    from tests.folders import write_with_ssru

    found = variants()
    wanted = sys.argv[1:] or list(dict.fromkeys(found[:1] + found[-1:]))
    if not wanted or not set(wanted) <= set(found):
        sys.exit(f"This machine runs {', '.join(found) or 'no kernels'}.")
    for sanitizers, runtime in BUILDS.items():
        with tempfile.TemporaryDirectory() as folder:
            built = Path(folder) / "kernels.so"
            models = [each for own in (BUNDLED, TOY) for each in (own, write_with_ssru(Path(folder, own.name), own))]
            sources = [SOURCES / f"{name.replace('-', '_')}.cpp" for name in ("support", *wanted)]
            flags = ["-O1", "-g", "-std=c++20", "-fPIC", "-shared", "-pthread", "-fno-omit-frame-pointer"]
            flags += [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all", "-Wno-maybe-uninitialized"]
            flags += ["-ffp-contract=off", header.definition()]
            subprocess.run(["g++", *flags, *sources, "-o", built], check=True)
            names = [f"-print-file-name={name}" for name in (runtime, EXCEPTIONS)]
            preload = " ".join(subprocess.check_output(["g++", name], text=True).strip() for name in names)
            for variant in wanted:
                environment = os.environ | OPTIONS | {CHOICE: f"{built}:{variant}", "LD_PRELOAD": preload}
                environment["XDG_CACHE_HOME"] = folder  # where the costs of slow calls mislead nobody
                print(f"-- {sanitizers}", flush=True)
                # Thread sanitizers need addresses where they expect them.
                command = ["setarch", "-R", sys.executable, __file__, "--work", *map(str, models)]
                if subprocess.run(command, cwd=ROOT, env=environment).returncode:
                    sys.exit(1)


if __name__ == "__main__":
    work(sys.argv[2:]) if sys.argv[1:2] == ["--work"] else main()
