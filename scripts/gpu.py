#!/usr/bin/env python3
"""One command for a GPU that is lent for minutes: the CUDA tests, then tables of speed, into a folder.

  python scripts/gpu.py OUT

Captured calls (specmt.engine.graphed) beside ordinary ones, drafts beside none, and Hugging Face's ``generate`` on a
model of the same size where transformers is installed; training where fairseq2 is. Ways take turns, so that what else
the machine does hits all alike; results are written as they come, and what there is no time for is left out and named.

It needs neither corpora nor, but for training, fairseq2. --device cpu --quick tries it out without a GPU; such figures
mean nothing.
"""

from __future__ import annotations

import importlib.util
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from specmt.config import DecodingOptions
from specmt.decoding.batch import decode
from specmt.decoding.loop import target_limit
from specmt.engine.graphed_verifier import GraphedVerifier
from specmt.engine.graphs import MANY, GraphPolicy
from specmt.engine.shapes import FREE
from specmt.evaluation.machine import describe_machine
from specmt.evaluation.tables import Table
from specmt.models.config import VerifierConfig
from specmt.models.folder import DRAFTER, VERIFIER
from specmt.models.hub import Model, drafter_network, load_model, verifier_network
from specmt.models.shapes import verifier_shapes
from specmt.types import BOS, EOS, PAD

ROOT = Path(__file__).resolve().parents[1]
TESTS = "cuda or on_a_gpu or captured_calls"
GREEDY = DecodingOptions(strategy="greedy")
BASE = "greedy, captured"
RANDOM_SOURCE = 24
"""Pieces of the sources of random models, whose outputs are all as long as may be."""

Run = Callable[[Sequence[list[int]], int], list[list[int]]]
"""Takes sources and a batch size; returns the ids of the translations."""

console = Console(width=140)


@dataclass
class Report:
    """What was found, written anew whenever something is added."""

    folder: Path
    ends: float
    record: dict[str, Any] = field(default_factory=dict)

    def left(self) -> float:
        """Returns the seconds that are left."""
        return self.ends - time.monotonic()

    def note(self, text: str) -> None:
        console.print(text, markup=False)
        self.record.setdefault("notes", []).append(text)
        self.write()

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "gpu.json").write_text(json.dumps(self.record, indent=1) + "\n", encoding="utf-8")
        tables = "\n".join(table.markdown() for table in self.tables())
        notes = "".join(f"- {note}\n" for note in self.record.get("notes", []))
        (self.folder / "gpu.md").write_text(f"{tables}\n{notes}", encoding="utf-8")

    def tables(self) -> Iterator[Table]:
        """Yields a table for each model: tokens a second by batch size, and times those of greedy decoding."""
        rows = self.record.get("speed", [])
        for model in dict.fromkeys(row["model"] for row in rows):
            mine = [row for row in rows if row["model"] == model]
            sizes = list(dict.fromkeys(row["batch_size"] for row in mine))
            cells = {(row["way"], row["batch_size"]): row for row in mine}
            lines = []
            for way in dict.fromkeys(row["way"] for row in mine):
                found = [cells.get((way, size)) for size in sizes]
                lines.append(
                    [way, *("" if row is None else f"{row['speed']:.0f} ({row['ratio']:.2f}×)" for row in found)]
                )
            title = f"{model}: tokens a second, and times {BASE}"
            yield Table(title, ["way", *(f"batch {size}" for size in sizes)], lines, [self.record["device"] + "."])
        if "training" in self.record:
            found = self.record["training"]
            yield Table("training", ["model", "ids a second"], [[found["model"], f"{found['speed']:.0f}"]])


def run_tests(report: Report, device: str) -> None:
    """Runs the tests that need the device; on the CPU, those that stand for them."""
    which = TESTS if device == "cuda" else "policies or precision"
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", "-k", which]
    command += ["tests/unit/test_graphs.py"]
    try:
        limit = max(30.0, report.left() / 2)
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        report.record["tests"] = "not done in half of the time"
        report.note("The tests were not done in half of the time.")
        return
    (report.folder / "tests.txt").write_text(result.stdout + result.stderr, encoding="utf-8")
    last = (result.stdout.strip() or result.stderr.strip()).splitlines()[-1]
    report.record["tests"] = last
    report.note(f"Tests: {last}")


def networks_of(model: Model, policy: GraphPolicy | None) -> Model:
    """Returns a model with networks of another policy; ``None`` for ordinary ones in free shapes."""
    device, dtype, folder = model.verifier.device, model.verifier.dtype, model.folder
    weights = folder.weights(VERIFIER)
    verifier = verifier_network(weights, folder.verifier, device, dtype, shapes=FREE, kernels=False, policy=policy)
    drafter = None
    if folder.drafter is not None:
        own = {"embed.weight": weights["encoder_frontend.embed.weight"], **folder.weights(DRAFTER)}
        drafter = drafter_network(own, folder.drafter, device, dtype, kernels=False, policy=policy)
    return replace(model, verifier=verifier, drafter=drafter, plans={}, most_rows=None)


def by(model: Model, options: DecodingOptions) -> Run:
    def run(sources: Sequence[list[int]], batch_size: int) -> list[list[int]]:
        found = decode(model, sources, replace(options, batch_size=batch_size, batch_tokens=10**6))
        return [each.tokens for each in found]

    return run


def peer(report: Report, name: str, make: Callable[[], Run]) -> dict[str, Run]:
    """Returns a way that needs transformers, in a version that may be another; nothing where it cannot be made."""
    try:
        return {name: make()}
    except Exception as error:  # whatever it is, the rest is to be measured
        report.note(f"{name}: {type(error).__name__}: {error}"[:500])
        return {}


def bundled_ways(report: Report, device: str, dtype: str, *, quick: bool) -> tuple[list[list[int]], dict[str, Run]]:
    """Returns sources and the ways to decode them with the bundled model."""
    loaded = load_model(device=device, dtype=dtype, kernels=False)
    if device == "cpu":
        loaded = networks_of(loaded, GraphPolicy((4,), (16,)))
    free, eager = networks_of(loaded, MANY), networks_of(loaded, None)
    chain = DecodingOptions(block_size=loaded.own_block_size(DecodingOptions()) or 1)
    best_first = DecodingOptions(tree="best-first", nodes=15, block_size=8)
    ways = {
        BASE: by(loaded, GREEDY),
        "greedy, captured, free shapes": by(free, GREEDY),
        "greedy, eager": by(eager, GREEDY),
        "chain, captured": by(loaded, chain),
        "chain, captured, free shapes": by(free, chain),
        "chain, eager": by(eager, chain),
        "tree, captured": by(loaded, best_first),
        "autoregressive chain, captured": by(loaded, DecodingOptions(drafter="autoregressive", block_size=5)),
        "chosen by the program, captured": by(loaded, DecodingOptions()),
    }
    if loaded.drafter is None:
        ways = {name: way for name, way in ways.items() if name.startswith("greedy")}

    def convert() -> Run:
        from peers.to_m2m100 import to_m2m100

        theirs = to_m2m100(loaded.folder.verifier, loaded.folder.weights(VERIFIER))
        kind, limit = loaded.verifier.dtype, loaded.folder.verifier.max_length
        return generate(theirs.to(loaded.verifier.device, kind), limit)

    ways |= peer(report, "Hugging Face generate, same weights", convert)
    if quick:
        ways.pop("chosen by the program, captured", None)  # it measures what calls cost first
    lines = (ROOT / "data" / "sample.de").read_text(encoding="utf-8").splitlines()
    if quick:
        lines = sorted(lines, key=len)[:4]
    return loaded.pieces.encode_batch(lines), ways


def random_ways(report: Report, device: str, dtype: str, *, quick: bool) -> tuple[list[list[int]], dict[str, Run]]:
    """Returns sources and ways for a random Transformer of 6 + 6 layers, and a Marian model of its size.

    Nothing that they say ends before it must, so that all say equally much.
    """
    width, layers = (32, 1) if quick else (512, 6)
    config = VerifierConfig(
        model_dim=width,
        num_heads=width // 64 or 1,
        ffn_dim=4 * width,
        encoder_layers=layers,
        decoder_layers=layers,
        output_bias=True,
    )
    generator = torch.Generator().manual_seed(1)
    weights = {
        name: torch.randn(shape, generator=generator) * (shape[-1] ** -0.5 if len(shape) > 1 else 0.1)
        + ("norm.weight" in name)
        for name, shape in verifier_shapes(config).items()
    }
    weights["final_proj.bias"][[PAD, EOS]] = -1e4
    like = load_model(device=device, dtype=dtype, kernels=False)
    place, kind = like.verifier.device, like.verifier.dtype
    strict = like.verifier.policy if isinstance(like.verifier, GraphedVerifier) else GraphPolicy((4,), (16,))

    def model(policy: GraphPolicy | None) -> Model:
        verifier = verifier_network(weights, config, place, kind, shapes=FREE, kernels=False, policy=policy)
        return replace(like, verifier=verifier, drafter=None, plans={})

    captured, free = model(strict), model(MANY)
    captured.fast_verifier = captured.verifier  # the folder's weights are of another model
    ways = {
        BASE: by(captured, GREEDY),
        "greedy, captured, free shapes": by(free, GREEDY),
        "greedy, eager": by(model(None), GREEDY),
        # What it says itself is all accepted: the most that drafts of the verifier's own size can bring.
        "drafted by itself, captured": by(captured, DecodingOptions(drafter="self", block_size=7)),
    }

    def make_marian() -> Run:
        from transformers import MarianConfig, MarianMTModel

        marian = MarianMTModel(
            MarianConfig(
                vocab_size=config.vocab_size,
                d_model=width,
                encoder_layers=layers,
                decoder_layers=layers,
                encoder_attention_heads=config.num_heads,
                decoder_attention_heads=config.num_heads,
                encoder_ffn_dim=config.ffn_dim,
                decoder_ffn_dim=config.ffn_dim,
                max_position_embeddings=config.max_length,
                pad_token_id=PAD,
                bos_token_id=BOS,
                eos_token_id=EOS,
                forced_eos_token_id=None,
                decoder_start_token_id=BOS,
            )
        ).eval()
        return generate(marian.to(place, kind), config.max_length, whole=True)

    ways |= peer(report, "Hugging Face generate, Marian", make_marian)
    draw = np.random.default_rng(1)
    return draw.integers(4, config.vocab_size, (2048, 2 if quick else RANDOM_SOURCE)).tolist(), ways


def generate(model: Any, max_length: int, *, whole: bool = False) -> Run:
    """Returns Hugging Face's greedy search, sentences of like length side by side.

    :param whole: whether outputs are to be as long as may be
    """

    @torch.inference_mode()
    def run(sources: Sequence[list[int]], batch_size: int) -> list[list[int]]:
        order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
        found: dict[int, list[int]] = {}
        for start in range(0, len(order), batch_size):
            some = order[start : start + batch_size]
            rows = [[*sources[index], EOS] for index in some]
            width = max(map(len, rows))
            ids = torch.tensor([row + [PAD] * (width - len(row)) for row in rows], device=model.device)
            limit = target_limit(width, max_length)
            lengths = {"max_new_tokens": limit, **({"min_new_tokens": limit} if whole else {})}
            out = model.generate(ids, attention_mask=(ids != PAD).long(), do_sample=False, num_beams=1, **lengths)
            for index, row in zip(some, out[:, 1:].tolist(), strict=True):
                found[index] = row[: row.index(EOS)] if EOS in row else row
        return [found[index] for index in range(len(sources))]

    return run


def measure(
    report: Report,
    name: str,
    ways: dict[str, Run],
    sources: list[list[int]],
    batch_sizes: Sequence[int],
    rounds: int,
    share: float,
    *,
    quick: bool,
) -> None:
    """Adds a row of the record for each way and batch size.

    :param share: how much of the time that is left may be used
    """
    ends = time.monotonic() + share * report.left()
    first: dict[str, list[list[int]]] = {}
    for batch_size in batch_sizes:
        count = 3 if quick else max(16, 2 * batch_size)
        some = (sources * (count // len(sources) + 1))[:count]
        seconds: dict[str, list[float]] = {}
        outputs: dict[str, list[list[int]]] = {}
        for number in range(1 + rounds):  # the first captures, and is not counted
            for way, run in list(ways.items()):
                if time.monotonic() > ends and (number < 2 or BASE not in seconds):
                    report.note(f"{name}: no time for batch {batch_size} and above.")
                    return
                started = time.perf_counter()
                try:
                    outputs[way] = run(some, batch_size)
                except Exception as error:  # a peer of another version, say: the rest is to be measured
                    del ways[way]
                    seconds.pop(way, None)
                    report.note(f"{name}, {way}, batch {batch_size}: {type(error).__name__}: {error}"[:500])
                    continue
                if number:
                    seconds.setdefault(way, []).append(time.perf_counter() - started)
            if time.monotonic() > ends and number:
                break
        if BASE not in seconds:
            return
        base = statistics.median(seconds[BASE])
        tokens = {way: sum(map(len, outputs[way])) for way in seconds}
        first.setdefault("base", outputs[BASE])
        for way, times in seconds.items():
            speed = tokens[way] / statistics.median(times)
            row = {
                "model": name,
                "way": way,
                "batch_size": batch_size,
                "sentences": count,
                "tokens": tokens[way],
                "seconds": [round(value, 5) for value in times],
                "speed": speed,
                "ratio": speed / (tokens[BASE] / base),
                "as_base": sum(a == b for a, b in zip(outputs[way], outputs[BASE], strict=True)) / count,
                "as_first_batch": sum(a == b for a, b in zip(outputs[way], first["base"], strict=False))
                / min(count, len(first["base"])),
            }
            report.record.setdefault("speed", []).append(row)
        report.write()
        console.print(list(report.tables())[-1].rich())


def measure_training(report: Report, device: str, *, quick: bool) -> None:
    """Adds how many ids a second a verifier of 6 + 6 layers, d = 512, is trained on."""
    if importlib.util.find_spec("fairseq2n") is None:
        # The compiled part, which training does not need, is for one version of torch.
        stub = ModuleType("fairseq2n")
        stub.DOC_MODE = True  # type: ignore[attr-defined]
        sys.modules["fairseq2n"] = stub
    try:
        from specmt.models.verifier import create_verifier
        from specmt.training.dropout import use_fast_dropout
        from specmt.training.loss import cross_entropy
        from specmt.training.verifier import target_states
    except ImportError as error:
        report.note(f"Training was not measured: {error}.")
        return
    place = torch.device(device)
    layers, width, rows, length = (1, 32, 2, 8) if quick else (6, 512, 256, 32)
    config = VerifierConfig(
        model_dim=width, num_heads=width // 64 or 1, ffn_dim=4 * width, encoder_layers=layers, decoder_layers=layers
    )
    model = create_verifier(config, place).train()
    use_fast_dropout(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    source, target = torch.randint(4, config.vocab_size, (2, rows, length), device=place)
    lengths = torch.full((rows,), length)

    def update() -> Tensor:
        with torch.autocast(device, torch.bfloat16):
            states = target_states(model, source, lengths, target[:, :-1])
            logits = model.final_proj(states.flatten(0, 1))
            wanted = target[:, 1:].flatten()
            weights = torch.ones(len(wanted), device=place)
            loss = cross_entropy(logits, wanted, weights, smoothing=0.1) / len(wanted)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    seconds = []
    for _ in range(2 if quick else 4):
        started = time.perf_counter()
        for _ in range(1 if quick else 10):
            loss = update()
        loss.item()
        seconds.append((time.perf_counter() - started) / (1 if quick else 10))
    speed = 2 * rows * length / statistics.median(seconds[1:])
    name = f"{layers} + {layers} layers, d = {width}, {2 * rows * length} ids an update, bfloat16"
    report.record["training"] = {"model": name, "seconds": seconds, "speed": speed}
    report.write()


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--minutes", default=8.0, show_default=True, help="How long it may take.")
@click.option("--dtype", default="bfloat16", show_default=True)
@click.option("--batch-sizes", default="1,8,32,128,256", show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--tests/--no-tests", default=True, show_default=True)
@click.option("--only", default="", help="Only ways whose names match this expression, and the base.")
@click.option("--device", default="cuda", type=click.Choice(["cuda", "cpu"]), help="cpu only tries out the script.")
@click.option("--quick", is_flag=True, help="Tiny counts, to try out the script.")
def main(
    folder: Path,
    minutes: float,
    dtype: str,
    batch_sizes: str,
    rounds: int,
    tests: bool,
    only: str,
    device: str,
    quick: bool,
) -> None:
    """Tests and measures captured calls on a GPU; exits 1 where there is none, or if a test fails."""
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("no GPU here: torch sees no CUDA device (--device cpu --quick tries out the script)")
    if device == "cpu":
        dtype = "float32"
    sizes = [1, 3] if quick else [int(size) for size in batch_sizes.split(",")]
    report = Report(folder, time.monotonic() + 60 * minutes)
    report.record |= {
        "device": torch.cuda.get_device_name() if device == "cuda" else "CPU: figures mean nothing",
        "dtype": dtype,
        "machine": describe_machine(("torch", "transformers", "fairseq2", "numpy")),
        "rounds": rounds,
    }
    report.write()
    if tests:
        run_tests(report, device)
    models = {"bundled model": (bundled_ways, 0.6), "random, d = 512, 6 + 6 layers": (random_ways, 0.7)}
    for name, (make, share) in models.items():
        sources, ways = make(report, device, dtype, quick=quick)
        ways = {way: run for way, run in ways.items() if way == BASE or re.search(only, way)}
        measure(report, name, ways, sources, sizes, 1 if quick else rounds, share, quick=quick)
        if device == "cuda":
            torch.cuda.empty_cache()
    if report.left() > 20:
        measure_training(report, device, quick=quick)
    else:
        report.note("No time was left for training.")
    strange = [row for row in report.record.get("speed", []) if "captured" in row["way"] and "free" not in row["way"]]
    if any(min(row["as_base"], row["as_first_batch"]) < 1.0 for row in strange):
        report.note("Some captured way said something else than greedy decoding, or than at another batch size.")
    console.print((folder / "gpu.md").read_text(encoding="utf-8"), markup=False)
    sys.exit(1 if re.search("failed|error|not done", str(report.record.get("tests", ""))) else 0)


if __name__ == "__main__":
    main()
