"""Random models in the form of Firefox's: Marian's binary files, vocabularies of SentencePiece, binary shortlists."""

from __future__ import annotations

import json
import random
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

FLOAT32, INT8, INTGEMM8 = 0x0404, 0x0101, 0x4101
SAMPLE = Path(__file__).parents[1] / "data" / "sample"

END = 6.0
"""What is added to the bias of the end, so that translations have ends."""

OPTIONS: dict[str, Any] = {
    "dec-cell": "ssru",
    "dec-cell-base-depth": 2,
    "dec-cell-high-depth": 1,
    "dec-depth": 2,
    "dim-emb": 64,
    "dim-rnn": 1024,
    "enc-cell": "gru",
    "enc-cell-depth": 1,
    "enc-depth": 2,
    "enc-type": "bidirectional",
    "factors-combine": "sum",
    "factors-dim-emb": 0,
    "input-types": [],
    "layer-normalization": False,
    "lemma-dim-emb": 0,
    "output-omit-bias": False,
    "right-left": False,
    "skip": False,
    "transformer-aan-activation": "swish",
    "transformer-aan-depth": 2,
    "transformer-aan-nogate": False,
    "transformer-decoder-autoreg": "rnn",
    "transformer-depth-scaling": False,
    "transformer-dim-aan": 2048,
    "transformer-dim-ffn": 128,
    "transformer-ffn-activation": "relu",
    "transformer-ffn-depth": 2,
    "transformer-guided-alignment-layer": "last",
    "transformer-heads": 2,
    "transformer-no-projection": False,
    "transformer-pool": False,
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
    "transformer-preprocess": "",
    "transformer-rnn-projection": False,
    "transformer-tied-layers": [],
    "transformer-train-position-embeddings": False,
    "type": "transformer",
    "ulr": False,
    "version": "v1.9.56",
}
"""What Mozilla's students say of themselves, at a quarter of their width."""


@dataclass(frozen=True)
class Item:
    """An entry of a binary file; of another type than its array where that says so."""

    name: str
    type: int
    shape: tuple[int, ...]
    data: bytes


@dataclass
class Marian:
    """A random model."""

    pieces: tuple[int, int]
    """How many there are of the source and of the target."""

    options: dict[str, Any] = field(default_factory=lambda: dict(OPTIONS))
    weights: dict[str, Array] = field(default_factory=dict)

    def binary(self, *, int8: bool = False) -> bytes:
        """Returns the model as Marian writes it, in float32 or with matrices in int8."""
        return pack([*self.items(int8=int8), text_item(self.options)])

    def items(self, *, int8: bool = False) -> Iterable[Item]:
        for name, array in self.weights.items():
            if not int8 or len(array) == 1:
                yield Item(name, FLOAT32, array.shape, array.tobytes())
                continue
            codes, factor = quantised(array)
            stored = codes if name.endswith("Wemb") else codes.T
            yield Item(name, INTGEMM8, array.shape, stored.tobytes() + factor.tobytes())
            yield Item(f"{name}_QuantMultA", FLOAT32, (1, 1), np.float32(127 / 8).tobytes())

    def write_npz(self, path: Path) -> None:
        options = np.frombuffer(yaml(self.options), dtype=np.int8)
        np.savez(path, **self.weights, **{"special:model.yml": options})


def quantised(array: Array) -> tuple[Array, np.float32]:
    """Returns codes of a matrix, and what it was multiplied by; not all rows have a code as large as 127."""
    factor = np.float32(127) / np.abs(array).max()
    return np.rint(array * factor).astype(np.int8), factor


def random_model(pieces: tuple[int, int], seed: int, *, shared: bool = True, **options: Any) -> Marian:
    """Returns a model whose translations are of many pieces and lengths, the same bits everywhere.

    For that, what a token says must outweigh where it stands, and feed-forward networks what stays the same from step
    to step.
    """
    model = Marian(pieces, {**OPTIONS, **options})
    settings, weights, draw = model.options, model.weights, random.Random(seed)
    width, inner = settings["dim-emb"], settings["transformer-dim-ffn"]

    def add(name: str, *shape: int, mean: float = 0.0, spread: float = width**-0.5) -> Array:
        numbers = np.array([draw.random() for _ in range(prod(shape))]).reshape(shape)
        weights[name] = (mean + spread * 12**0.5 * (numbers - 0.5)).astype(np.float32)
        return weights[name]

    def add_norm(name: str) -> None:
        add(f"{name}_ln_scale", 1, width, mean=1.0)
        add(f"{name}_ln_bias", 1, width)

    def add_attention(name: str) -> None:
        for part in "qkvo":
            add(f"{name}_W{part}", width, width)
            add(f"{name}_b{part}", 1, width)
        add_norm(f"{name}_Wo")

    def add_ffn(name: str) -> None:
        add(f"{name}_W1", width, inner)
        add(f"{name}_b1", 1, inner)
        outputs = add(f"{name}_W2", inner, width, spread=4.0 * width**-0.5)
        outputs[1::2] = -outputs[::2]  # what all units have in common adds up to nothing
        add(f"{name}_b2", 1, width)
        add_norm(f"{name}_ffn")

    def add_ssru(name: str) -> None:
        add(f"{name}_W", width, width, spread=2.0 * width**-0.5)
        add(f"{name}_Wf", width, width)
        add(f"{name}_bf", 1, width)
        add_norm(f"{name}_ffn")

    for layer in range(1, settings["enc-depth"] + 1):
        add_attention(f"encoder_l{layer}_self")
        add_ffn(f"encoder_l{layer}_ffn")
    for layer in sorted({*(settings["transformer-tied-layers"] or range(1, settings["dec-depth"] + 1))}):
        if settings["transformer-decoder-autoreg"] == "rnn":
            add_ssru(f"decoder_l{layer}_rnn")
        else:
            add_attention(f"decoder_l{layer}_self")
        add_attention(f"decoder_l{layer}_context")
        add_ffn(f"decoder_l{layer}_ffn")
    tables = [("Wemb", pieces[0])] if shared else zip(("encoder_Wemb", "decoder_Wemb"), pieces, strict=True)
    for table, count in tables:
        add(table, count, width, spread=3.0 * width**-0.5)
    add("decoder_ff_logit_out_b", 1, pieces[1], spread=1.0)[0, 0] += END
    tied = {"tied-embeddings": not shared, "tied-embeddings-all": shared, "tied-embeddings-src": False}
    model.options = {**settings, **tied, "dim-vocabs": list(pieces)}
    return model


def yaml(options: Mapping[str, Any]) -> bytes:
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in options.items()).encode() + b"\0"


def text_item(options: Mapping[str, Any]) -> Item:
    text = yaml(options)
    return Item("special:model.yml", INT8, (len(text),), text)


def pack(items: Iterable[Item], *, version: int = 1) -> bytes:
    """Returns a binary file: heads, names, shapes, and data that begins at multiples of 256 bytes."""
    items = list(items)
    filled = [item.data + bytes(-len(item.data) % 256) for item in items]
    head = struct.pack("<2Q", version, len(items))
    for item, data in zip(items, filled, strict=True):
        head += struct.pack("<4Q", len(item.name.encode()) + 1, item.type, len(item.shape), len(data))
    head += b"".join(item.name.encode() + b"\0" for item in items)
    head += b"".join(struct.pack(f"<{len(item.shape)}i", *item.shape) for item in items)
    padding = -(len(head) + 8) % 256
    return head + struct.pack("<Q", padding) + bytes(padding) + b"".join(filled)


def pack_shortlist(lists: Sequence[Sequence[int]], *, first: int, best: int) -> bytes:
    """Returns a binary shortlist.

    :param lists: the target pieces of each source piece
    """
    offsets = np.cumsum([0, *map(len, lists)])
    entries = [piece for each in lists for piece in sorted(each)]
    rest = struct.pack(f"<4Q{len(offsets)}Q", first, best, len(offsets), len(entries), *offsets.tolist())
    rest += struct.pack(f"<{len(entries)}I", *entries)
    return struct.pack("<2Q", 0xF11A48D5013417F5, checksum(rest)) + rest


def checksum(rest: bytes) -> int:
    """Returns what binary shortlists are compared with: all words of 8 bytes, one mixed into the other."""
    seed = 0
    for (word,) in struct.iter_unpack("<Q", rest[: len(rest) // 8 * 8]):
        seed ^= (word + 0x9E3779B9 + (seed << 6) + (seed >> 2)) % 2**64
    return seed


def random_shortlist(pieces: tuple[int, int], seed: int, *, each: int = 40) -> list[list[int]]:
    draw = random.Random(seed)
    return [draw.sample(range(pieces[1]), draw.randint(0, each)) for _ in range(pieces[0])]


def make_vocabulary(text: str, size: int) -> bytes:
    """Returns a SentencePiece model as Mozilla's are: piece 0 is the end, 1 the unknown one, and the others are normal.

    They are all characters of a text, and then what words begin with and hold, the most frequent first. By hand, since
    what is trained depends on the version of the library.
    """
    marked = ["▁", *(f"▁{word}" for word in text.split())]
    parts = [word[place : place + length] for length in (2, 3, 4) for word in marked for place in range(len(word))]
    characters = dict.fromkeys("".join(marked))
    longer = [part for part, _ in Counter(parts).most_common() if len(part) > 1]
    pieces = [*characters, *longer][: size - 2]
    assert len(pieces) == size - 2 > len(characters)
    # Fields of ModelProto, SentencePiece and TrainerSpec, in the wire format of protocol buffers.
    records = [("</s>", 0.0, 3), ("<unk>", 0.0, 2), *((piece, -2.0 - i / 64, 1) for i, piece in enumerate(pieces))]
    model = b"".join(
        _field(1, _field(1, piece.encode()) + struct.pack("<Bf", 2 << 3 | 5, score) + _number(3, kind))
        for piece, score, kind in records
    )
    ids = {"unk": 1, "bos": -1, "eos": 0, "pad": -1}
    return model + _field(2, b"".join(_number(40 + i, number) for i, number in enumerate(ids.values())))


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value % 2**64)


def _varint(value: int) -> bytes:
    groups = [value >> shift & 0x7F for shift in range(0, max(1, value.bit_length()), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def chinese(*, lines: int = 400, seed: int = 1) -> str:
    """Returns text that hardly has spaces: words of one to three of 300 characters, and some of letters."""
    draw = random.Random(seed)
    characters = [chr(0x4E00 + 37 * number) for number in range(300)]
    words = ["".join(draw.choices(characters, k=draw.randint(1, 3))) for _ in range(200)] + ["Linux", "2.0"]
    return "\n".join("".join(draw.choices(words, k=draw.randint(2, 12))) + "。" for _ in range(lines))


def sentences(count: int, seed: int) -> list[str]:
    """Returns short sentences of random words, some with characters that no vocabulary has."""
    words = SAMPLE.with_suffix(".de").read_text(encoding="utf-8").split()
    draw = random.Random(seed)
    return [" ".join(draw.choices([*words, "ŵŷ", "🙂"], k=draw.randint(1, 8))) for _ in range(count)]


def numbered(seed: int) -> tuple[Marian, dict[str, bytes]]:
    """Returns a model, and the files of its vocabularies; those of even numbers say Chinese."""
    german, english = (SAMPLE.with_suffix(end).read_text(encoding="utf-8") for end in (".de", ".en"))
    options = {"dec-depth": 1 + seed % 3, **SPECIAL.get(seed, {})}
    if seed % 2:
        return random_model((400, 400), seed, **options), {"vocab.spm": make_vocabulary(german + english, 400)}
    files = {"srcvocab.spm": make_vocabulary(german, 304), "trgvocab.spm": make_vocabulary(chinese(), 600)}
    return random_model((304, 600), seed, shared=False, **options), files


SPECIAL: dict[int, dict[str, Any]] = {
    4: {"dim-emb": 192, "transformer-dim-ffn": 192, "transformer-heads": 4},
    5: {"dec-depth": 3, "transformer-tied-layers": [1, 1, 3]},
    6: {"transformer-ffn-activation": "swish", "transformer-depth-scaling": True},
    7: {"transformer-decoder-autoreg": "self-attention"},
    12: {"dim-emb": 192, "transformer-dim-ffn": 192, "transformer-heads": 3},
}
"""Options in which some of the models differ from the others."""


def write_numbered(folder: Path, seed: int, *, int8: bool = False) -> Path:
    """Writes a model with its vocabularies into a folder that it makes."""
    model, files = numbered(seed)
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in {**files, "model.bin": model.binary(int8=int8)}.items():
        (folder / name).write_bytes(data)
    return folder
