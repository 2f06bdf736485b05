#!/usr/bin/env python
"""Reads very many of what is almost a document, a glossary, a memory, a request, a configuration (tests/fuzzing.py).

    PYTHONPATH=. python scripts/fuzz.py [--count N] [--first SEED] [KIND…]

What does not hold is printed with its kind and seed, from which the same input is made again; exit code 1.
"""

from __future__ import annotations

import argparse
import logging
import resource
import sys
import time

from tests.fuzzing import KINDS, check

MEMORY = 2 << 30
"""The most bytes of this process: inputs have a few KiB."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=KINDS)
    parser.add_argument("--count", type=int, default=50_000, help="inputs of a kind")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first one")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    logging.disable()  # of the library that reads forms
    faults = 0
    for kind in arguments.kinds:
        read, found, started = 0, 0, time.process_time()
        for seed in range(arguments.first, arguments.first + arguments.count):
            try:
                read += check(kind, seed)
            except Exception as error:
                found += 1
                print(f"{kind} {seed}: {type(error).__name__}: {str(error)[:200]}", flush=True)
        seconds = time.process_time() - started
        print(f"{kind}: {arguments.count} inputs, {read} read, {found} faults, {seconds:.0f} s", flush=True)
        faults += found
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
