#!/usr/bin/env python3
"""Compares specmt with CTranslate2 on the same verifier, the same lines and the same machine, text to text.

The verifier of a model folder becomes a CTranslate2 model. Its greedy and beam search, in the type and with the use of
threads that are fastest on some of the lines, are timed beside specmt's speculative and greedy decoding and beside
fairseq2's beam search. All ways take turns in one run (fairseq2 only in the first); speeds are medians, and ratios are
taken within each turn. Every way gets all lines at once, to
sort by length as it likes, and encodes and decodes them with the model's SentencePiece in the time that counts.

It needs CTranslate2 (pip install ctranslate2). Run it on a quiet machine, with SPECMT_CORPORA naming the folder of the
test sets; --check first, which compares the two greedy decodings token by token in float32:

  python scripts/compare_ctranslate2.py --check
  python scripts/compare_ctranslate2.py --json runs/ctranslate2.json

CTranslate2's own variables work as always, such as CT2_USE_MKL=1 for Intel's kernels on processors of others.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import torch
from measure import decode_lines, read_lines
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sacrebleu.metrics.bleu import BLEU
from torch import Tensor

from specmt.config import DecodingOptions
from specmt.decoding.loop import target_limit
from specmt.engine.transformer import sinusoids
from specmt.errors import SpecmtError
from specmt.models.folder import PIECES, VERIFIER, ModelFolder, find
from specmt.models.hub import Model, load_model
from specmt.text.pieces import Pieces
from specmt.text.segment import split_layout
from specmt.translator import Translator
from specmt.types import BOS, EOS, UNK

try:
    import ctranslate2
except ImportError:
    sys.exit("compare_ctranslate2.py needs CTranslate2: pip install ctranslate2")

SETS = ("newstest2014.de-en", "docs-test")
TYPES = ("float32", "bfloat16", "int8")
LEAST_IDENTICAL = 0.97
"""Near-ties may go the other way by rounding; fewer identical lines than this mean a wrong conversion."""

BASE = "specmt greedy"

TRIED = 40
"""Lines that a setting is tried on."""

console = Console(width=120)

Way = Callable[[list[str]], "Result"]


def convert(folder: ModelFolder, out: Path) -> None:
    """Writes the verifier of a model folder as a CTranslate2 model."""
    config = folder.verifier
    weights = {name: tensor.float() for name, tensor in folder.weights(VERIFIER).items()}
    spec = ctranslate2.specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.num_heads,
        pre_norm=True,
        activation=ctranslate2.specs.common_spec.Activation.RELU,
    )
    table = weights["encoder_frontend.embed.weight"]
    spec.encoder.embeddings[0].weight = table  # scaled by the square root of its width where nothing else is said
    spec.decoder.embeddings.weight = table
    spec.decoder.projection.weight = table
    for name, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        stack.position_encodings.encodings = sinusoids(config.max_length, config.model_dim)
        set_norm(stack.layer_norm, weights, f"{name}.layer_norm")
        for number, layer in enumerate(stack.layer):
            set_layer(layer, weights, f"{name}.layers.{number}", cross=name == "decoder")

    pieces = Pieces(folder.verified(PIECES))
    vocabulary = pieces.pieces(range(len(pieces)))
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = pieces.pieces([UNK, BOS, EOS])
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = 1e-5
    out.mkdir(parents=True, exist_ok=True)
    spec.validate()
    spec.optimize()
    spec.save(str(out))


def set_layer(layer: Any, weights: dict[str, Tensor], name: str, *, cross: bool) -> None:
    """Fills a layer, whose projections of the same input CTranslate2 keeps side by side."""
    attention = layer.self_attention
    set_norm(attention.layer_norm, weights, f"{name}.self_attn_layer_norm")
    set_linear(attention.linear[0], weights, *(f"{name}.self_attn.{part}_proj" for part in "qkv"))
    set_linear(attention.linear[1], weights, f"{name}.self_attn.output_proj")
    if cross:
        attention = layer.attention
        set_norm(attention.layer_norm, weights, f"{name}.encoder_decoder_attn_layer_norm")
        set_linear(attention.linear[0], weights, f"{name}.encoder_decoder_attn.q_proj")
        set_linear(attention.linear[1], weights, *(f"{name}.encoder_decoder_attn.{part}_proj" for part in "kv"))
        set_linear(attention.linear[2], weights, f"{name}.encoder_decoder_attn.output_proj")
    set_norm(layer.ffn.layer_norm, weights, f"{name}.ffn_layer_norm")
    set_linear(layer.ffn.linear_0, weights, f"{name}.ffn.inner_proj")
    set_linear(layer.ffn.linear_1, weights, f"{name}.ffn.output_proj")


def set_linear(spec: Any, weights: dict[str, Tensor], *names: str) -> None:
    spec.weight = torch.cat([weights[f"{name}.weight"] for name in names])
    spec.bias = torch.cat([weights[f"{name}.bias"] for name in names])


def set_norm(spec: Any, weights: dict[str, Tensor], name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


@dataclass(frozen=True)
class Setting:
    """How CTranslate2 runs: its type, and batches side by side times threads each."""

    compute_type: str
    workers: int
    threads: int


class Process:
    """CTranslate2 in a process of its own, without PyTorch, whose threads would fight with its own."""

    def __init__(self, path: Path, pieces: Path, setting: Setting) -> None:
        arguments = [str(path), str(pieces), setting.compute_type, str(setting.workers), str(setting.threads)]
        command = [sys.executable, str(Path(__file__).with_name("ctranslate2_worker.py")), *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, lines: Sequence[str], batch_size: int, beam_size: int, limit: int) -> Result:
        """Translates lines; CTranslate2 forms the batches, by length.

        :param limit: the most tokens of a translation: CTranslate2 has one for all sentences.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"lines": lines, "batch_size": batch_size, "beam_size": beam_size, "limit": limit}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit("CTranslate2 stopped.")
        return Result(**json.loads(answer))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@dataclass(frozen=True)
class Result:
    """What a way made of all lines, in how many seconds, text to text."""

    seconds: float
    texts: list[str]
    pieces: list[list[str]] = field(default_factory=list)


class Converted:
    """A converted verifier, run in whatever setting is fastest for what is asked."""

    def __init__(self, path: Path, model: Model, threads: int) -> None:
        self._path, self._model, self._threads = path, model, threads

    def limit(self, line: str) -> int:
        """Returns the most tokens that the loop allows the translation of a line."""
        return target_limit(len(self._model.pieces.encode(line)) + 1, self._model.folder.verifier.max_length)

    def process(self, setting: Setting) -> Process:
        return Process(self._path, self._model.folder.verified(PIECES), setting)

    def settings(self, batch_size: int) -> list[Setting]:
        """Returns the types and the ways to use the threads; batches side by side are not batches of 1."""
        shares = dict.fromkeys([(1, 1), (1, self._threads), *[(self._threads, 1)] * (batch_size > 1)])
        types = [name for name in TYPES if name in ctranslate2.get_supported_compute_types("cpu")]
        return [Setting(name, *share) for name in types for share in shares]

    def fastest(self, lines: Sequence[str], batch_size: int, beam_size: int) -> tuple[Setting, Way]:
        """Returns the setting that was fastest on some lines, and how to translate in it."""
        limit = max(map(self.limit, lines))
        tried: list[tuple[float, Setting]] = []
        for setting in self.settings(batch_size):
            process = self.process(setting)
            process.run(lines[:5], batch_size, beam_size, limit)
            some = lines[:: max(1, len(lines) // TRIED)]
            tried += [(process.run(some, batch_size, beam_size, limit).seconds, setting)]
            process.close()
        setting = min(tried, key=lambda each: each[0])[1]
        chosen = self.process(setting)
        return setting, lambda lines: chosen.run(lines, batch_size, beam_size, max(map(self.limit, lines)))


def specmt_way(model: Model, options: DecodingOptions) -> Way:
    translator = Translator(model)

    def translate(lines: list[str]) -> Result:
        started = time.perf_counter()
        texts = [each.text for each in translator.translate(lines, options, window=len(lines))]
        return Result(time.perf_counter() - started, texts)

    return translate


def read_pairs(model: Model, name: str, count: int) -> tuple[list[str], list[str]]:
    """Returns the first lines of a set and their references, without lines that specmt would not take in one piece."""
    pairs = zip(read_lines(name, "de")[:count], read_lines(name, "en")[:count], strict=True)
    kept = [(source.strip(), reference) for source, reference in pairs if is_plain(model, source.strip())]
    return [source for source, _ in kept], [reference for _, reference in kept]


def is_plain(model: Model, line: str) -> bool:
    return len(split_layout(line)) == 1 and 0 < len(model.pieces.encode(line)) < model.max_source_length


def check(model: Model, path: Path, threads: int, lines: int) -> bool:
    """Compares CTranslate2's greedy tokens with those of the loop; returns whether they are as good as the same."""
    converted = Converted(path, model, threads)
    process = converted.process(Setting("float32", 1, 1))
    passes = True
    for name in SETS:
        sources, _ = read_pairs(model, name, lines)
        ours, _, _ = decode_lines(model, sources, DecodingOptions(strategy="greedy"))
        limits = [converted.limit(source) for source in sources]
        found = process.run(sources, 32, 1, max(limits)).pieces
        theirs = [tokens[:limit] for tokens, limit in zip(found, limits, strict=True)]
        said = [model.pieces.pieces(tokens) for tokens in ours]
        different = [number for number in range(len(sources)) if said[number] != theirs[number]]
        share = 1 - len(different) / len(sources)
        passes = passes and share >= LEAST_IDENTICAL
        console.print(f"{name}: {share:.1%} of {len(sources)} lines identical (greedy, float32)")
        for number in different[:1]:
            console.print(f"line {number + 1} of those: {escape(sources[number])}", style="dim")
            for side, tokens in (("specmt", said[number]), ("CTranslate2", theirs[number])):
                console.print(f"{side}: {escape(' '.join(tokens))}", style="dim")
    process.close()
    return passes


def make_ways(
    model: Model, converted: Converted, sources: list[str], batch_size: int, block_size: int, fairseq2: bool
) -> dict[str, Way]:
    options = {
        "specmt speculative": DecodingOptions(batch_size=batch_size),
        f"specmt, masked, {block_size} drafted": DecodingOptions(batch_size=batch_size, block_size=block_size),
        f"specmt, autoregressive, {block_size} drafted": DecodingOptions(
            drafter="autoregressive", batch_size=batch_size, block_size=block_size
        ),
        BASE: DecodingOptions(strategy="greedy", batch_size=batch_size),
    }
    if fairseq2:
        for size in (1, 5):
            beam = DecodingOptions(strategy="beam", beam_size=size, batch_size=batch_size)
            options[f"fairseq2 beam {size}"] = beam
    ways = {name: specmt_way(model, each) for name, each in options.items()}
    if model.dtype != "int8":
        rough = load_model(model.path, device="cpu", dtype="int8", threads=torch.get_num_threads())
        ways["specmt greedy, int8"] = specmt_way(rough, options[BASE])
    for words, beam_size in (("greedy", 1), ("beam 5", 5)):
        setting, way = converted.fastest(sources, batch_size, beam_size)
        ways[f"CTranslate2 {setting.compute_type} {words} ({setting.workers} x {setting.threads})"] = way
    return ways


def measure(ways: dict[str, Way], sources: list[str], references: list[str], repeats: int, warm_up: int) -> list[Any]:
    """Runs every way once a turn; returns what the table and the JSON file say of each."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    outputs: dict[str, list[str]] = {}
    for name, way in ways.items():
        way(sources[: 5 if "fairseq2" in name else warm_up])
    for turn in range(repeats):
        for name, way in ways.items():
            if turn > 0 and "fairseq2" in name:
                continue  # minutes a turn, and far away from the others
            result = way(sources)
            outputs[name] = result.texts
            seconds[name].append(result.seconds)
    return [
        {
            "way": name,
            "seconds": [round(value, 4) for value in values],
            "sentences_per_second": len(sources) / statistics.median(values),
            "times_greedy": statistics.median(b / v for b, v in zip(seconds[BASE], values, strict=False)),
            "bleu": BLEU().corpus_score(outputs[name], [references]).score,
        }
        for name, values in seconds.items()
    ]


def describe_machine() -> str:
    model = ""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{model or platform.machine()}, {os.cpu_count()} cores"


@contextmanager
def converted_folder(folder: ModelFolder, out: Path | None) -> Iterator[Path]:
    """Converts a verifier into a folder that is kept, or into one that goes in the end."""
    with TemporaryDirectory(prefix="specmt-ctranslate2-") as temporary:
        path = out or Path(temporary)
        convert(folder, path)
        yield path


def compare(
    model: Model,
    converted: Converted,
    lines: int,
    repeats: int,
    batch_sizes: str,
    block_size: int,
    fairseq2: bool,
    report: Path | None,
) -> dict[str, Any]:
    """Prints a table for each batch size; returns the record that the JSON file holds."""
    sources, references = [], []
    for each in SETS:
        pairs = read_pairs(model, each, lines)
        sources += pairs[0]
        references += pairs[1]
    packages = ("specmt", "torch", "fairseq2", "ctranslate2", "sentencepiece")
    record: dict[str, Any] = {
        "machine": describe_machine(),
        "versions": {package: version(package) for package in packages},
        "settings": {key: value for key, value in sorted(os.environ.items()) if key.startswith("CT2_")},
        "model": model.path.name,
        "model_sha256": model.sha256,
        "dtype": model.dtype,
        "threads": torch.get_num_threads(),
        "sets": SETS,
        "lines": len(sources),
        "repeats": repeats,
        "results": [],
    }
    for batch_size in map(int, batch_sizes.split(",")):
        ways = make_ways(model, converted, sources, batch_size, block_size, fairseq2)
        # What calls cost is measured for the batch at hand, once: before the clock runs.
        rows = measure(ways, sources, references, repeats, max(10, batch_size))
        record["results"] += [{"batch_size": batch_size, **row} for row in rows]
        table = Table("way", "sentences/s", "times specmt greedy", "BLEU", title=f"batch size {batch_size}")
        for row in rows:
            figures = f"{row['sentences_per_second']:.1f}", f"{row['times_greedy']:.2f}", f"{row['bleu']:.1f}"
            table.add_row(row["way"], *figures)
        console.print(table)
        if report is not None:
            report.parent.mkdir(parents=True, exist_ok=True)
            report.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return record


@click.command()
@click.option("--model", "name", help="Model folder or name; default: the bundled one.")
@click.option("--threads", default=2, show_default=True)
@click.option("--dtype", default="auto", show_default=True, help="What specmt and fairseq2 compute in.")
@click.option("--lines", default=150, show_default=True, help="How many lines of each set.")
@click.option("--repeats", default=5, show_default=True)
@click.option("--batch-sizes", default="1,8,32", show_default=True)
@click.option("--block-size", default=5, show_default=True, help="Of the speculative run that does not choose.")
@click.option("--fairseq2/--no-fairseq2", default=True, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Keep the converted model here.")
@click.option("--json", "report", type=click.Path(path_type=Path, dir_okay=False), help="Write the figures here too.")
@click.option("--check", "checks", is_flag=True, help="Only compare greedy tokens in float32; exits 1 under 97% alike.")
def main(
    name: str | None,
    threads: int,
    dtype: str,
    lines: int,
    repeats: int,
    batch_sizes: str,
    block_size: int,
    fairseq2: bool,
    out: Path | None,
    report: Path | None,
    checks: bool,
) -> None:
    """Quality and speed of specmt beside CTranslate2 and fairseq2, text to text, on the CPU."""
    try:
        folder = find(name, source="de", target="en")
        model = load_model(folder.path, device="cpu", dtype="float32" if checks else dtype, threads=threads)
    except SpecmtError as error:
        raise click.ClickException(str(error)) from error
    with converted_folder(folder, out) as path:
        if checks:
            sys.exit(0 if check(model, path, threads, lines) else 1)
        record = compare(
            model, Converted(path, model, threads), lines, repeats, batch_sizes, block_size, fairseq2, report
        )
    versions = ", ".join(f"{package} {number}" for package, number in record["versions"].items())
    extra = "".join(f", {key}={value}" for key, value in record["settings"].items())
    console.print(
        f"{record['machine']}; {versions}; {threads} threads, specmt and fairseq2 in {model.dtype}{extra}; "
        f"{record['lines']} lines of {' and '.join(SETS)}, medians of {repeats}",
        style="dim",
    )


if __name__ == "__main__":
    main()
