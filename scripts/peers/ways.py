"""Ways to translate the same lines with the same weights, and the choice of the fastest setting of each."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import torch

from peers.tables import BASE
from specmt.decoding.loop import target_limit
from specmt.models.folder import PIECES
from specmt.models.hub import Model
from specmt.options import DecodingOptions
from specmt.translator import Translator

SCRIPTS = Path(__file__).resolve().parents[1]

TRIED = 6
"""Lines at least that a setting is tried on."""

CTRANSLATE2_TYPES = ("float32", "int8")
TRANSFORMERS_TYPES = ("float32", "bfloat16")

ASSISTED = (5, 20)
"""How many tokens Hugging Face's assistant drafts at most: as many as ours, or as many as it does by default."""


@dataclass(frozen=True)
class Result:
    """What a way made of all lines, in how many seconds, text to text."""

    seconds: float
    texts: list[str]
    pieces: list[list[str]] = field(default_factory=list)


Translate = Callable[[list[str]], Result]


@dataclass(frozen=True)
class Way:
    """A program and what it is asked to do, in one of the settings that it can do it in."""

    name: str
    setting: str
    translate: Translate


class Worker:
    """A peer in a process of its own, whose threads do not fight with those of PyTorch here."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", f"peers.{module}", *arguments]
        self._name = module
        self._process = subprocess.Popen(
            command, cwd=SCRIPTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def run(self, lines: Sequence[str], **request: str | int) -> Result:
        """Has lines translated.

        :raises RuntimeError: the process ended.
        """
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError(f"{self._name} has no pipes.")
        self._process.stdin.write(json.dumps({"lines": list(lines), **request}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self._name} stopped.")
        return Result(**json.loads(answer))

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


class Peers:
    """The processes of the peers, started when they are first needed."""

    def __init__(self, model: Model, converted: Path, threads: int) -> None:
        """
        :param converted: the verifier as a CTranslate2 model.
        """
        self._model, self._converted, self.threads = model, converted.resolve(), threads
        self._workers: list[Worker] = []
        self.ctranslate2 = cache(self._ctranslate2)
        self.transformers = cache(self._transformers)

    def limit(self, line: str) -> int:
        """Returns the most tokens, EOS included, that the loop allows the translation of a line."""
        return target_limit(len(self._model.pieces.encode(line)) + 1, self._model.folder.verifier.max_length)

    def _ctranslate2(self, compute_type: str, workers: int, threads: int) -> Worker:
        pieces = self._model.folder.verified(PIECES).resolve()
        paths = str(self._converted), str(pieces)
        return self._start("ctranslate2_worker", *paths, compute_type, str(workers), str(threads))

    def _transformers(self) -> Worker:
        return self._start("transformers_worker", str(self._model.path.resolve()))

    def _start(self, module: str, *arguments: str) -> Worker:
        worker = Worker(module, *arguments)
        self._workers.append(worker)
        return worker

    def close(self) -> None:
        for worker in self._workers:
            worker.close()

    def ctranslate2_ways(self, compute_type: str, batch_size: int, beam_size: int) -> Iterator[Way]:
        """Yields a search in every use of the threads; batches side by side are not batches of 1."""
        name = f"CTranslate2 {compute_type} {'greedy' if beam_size == 1 else f'beam {beam_size}'}"
        shares = dict.fromkeys([(1, 1), (1, self.threads), *[(self.threads, 1)] * (batch_size > 1)])
        for workers, threads in shares:

            def translate(lines: list[str], workers: int = workers, threads: int = threads) -> Result:
                worker = self.ctranslate2(compute_type, workers, threads)
                limit = max(map(self.limit, lines))  # it has one for all sentences
                return worker.run(lines, batch_size=batch_size, beam_size=beam_size, limit=limit)

            yield Way(name, f"{workers} × {plural(threads, 'thread')}", translate)

    def transformers_ways(self, batch_size: int, *, assisted: bool = False) -> Iterator[Way]:
        """Yields greedy search in every type and number of threads."""
        name = f"Hugging Face greedy{', assisted' * assisted}"
        for dtype in TRANSFORMERS_TYPES:
            for threads in dict.fromkeys([1, self.threads]):
                for drafted in ASSISTED if assisted else (0,):

                    def translate(
                        lines: list[str], dtype: str = dtype, threads: int = threads, drafted: int = drafted
                    ) -> Result:
                        return self.transformers().run(
                            lines,
                            dtype=dtype,
                            threads=threads,
                            batch_size=batch_size,
                            assisted=drafted,
                        )

                    said = [dtype, plural(threads, "thread"), *[f"{drafted} drafted"] * assisted]
                    yield Way(name, ", ".join(said), translate)


def specmt_way(name: str, model: Model, options: DecodingOptions, threads: int) -> Way:
    """Returns specmt, or fairseq2's search through it, in the type of a model."""
    translator = Translator(model)
    options = replace(options, protect=False)  # the peers get the text as it is

    def translate(lines: list[str]) -> Result:
        torch.set_num_threads(threads)
        started = time.perf_counter()
        texts = [each.text for each in translator.translate(lines, options, window=len(lines))]
        return Result(time.perf_counter() - started, texts)

    return Way(name, f"{model.dtype}, {plural(threads, 'thread')}", translate)


def fastest(ways: Sequence[Way], lines: Sequence[str], batch_size: int) -> Way:
    """Returns the way that was fastest on some of the lines, from all over them."""
    if len(ways) == 1:
        return ways[0]
    count = max(TRIED, 2 * batch_size)  # two batches at least: some settings have batches side by side
    some = list(lines[:: max(1, len(lines) // count)][:count])
    seconds = []
    for way in ways:
        way.translate(some[:2])
        seconds.append(way.translate(some).seconds)
    return ways[seconds.index(min(seconds))]


def all_ways(models: dict[str, Model], peers: Peers, batch_size: int, block_size: int) -> list[list[Way]]:
    """Returns everything that is compared, each in every setting that it has a choice of.

    :param models: the model in the type that specmt is to use, ``auto``, and in others by their names; another model as
        ``beside``.
    """
    model, threads = models["auto"], peers.threads
    assists = model.folder.autoregressive is not None
    greedy = DecodingOptions(strategy="greedy", batch_size=batch_size)
    ours = [specmt_way(BASE, model, greedy, threads)]
    if "int8" in models:
        ours.append(specmt_way("specmt greedy, int8", models["int8"], greedy, threads))
    if "beside" in models:
        depths = models["beside"].folder.verifier
        name = f"specmt greedy, {depths.encoder_layers}+{depths.decoder_layers} layers"
        ours.append(specmt_way(name, models["beside"], greedy, threads))
    ours.append(specmt_way("specmt speculative", model, DecodingOptions(batch_size=batch_size), threads))
    if assists:
        options = DecodingOptions(drafter="autoregressive", block_size=block_size, batch_size=batch_size)
        ours.append(specmt_way("specmt speculative, autoregressive", model, options, threads))
    theirs = [
        peers.ctranslate2_ways(compute_type, batch_size, beam_size)
        for beam_size in (1, 5)
        for compute_type in CTRANSLATE2_TYPES
    ]
    theirs.append(peers.transformers_ways(batch_size))
    if assists and batch_size == 1:  # Hugging Face assists one sentence at a time only
        theirs.append(peers.transformers_ways(batch_size, assisted=True))
    theirs += [fairseq2_ways(models, batch_size, beam_size, threads) for beam_size in (1, 5)]
    return [[way] for way in ours] + [list(ways) for ways in theirs]


def fairseq2_ways(models: dict[str, Model], batch_size: int, beam_size: int, threads: int) -> Iterator[Way]:
    """Yields fairseq2's beam search in every type and number of threads."""
    options = DecodingOptions(strategy="beam", beam_size=beam_size, batch_size=batch_size)
    for model in {models[name].dtype: models[name] for name in ("float32", "auto")}.values():
        for count in dict.fromkeys([1, threads]):
            yield specmt_way(f"fairseq2 beam {beam_size}", model, options, count)


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
