"""Translates with Hugging Face's ``generate`` in a process of its own: one request a line of standard input, JSON.

PyTorch computes, or ONNX Runtime: transformers_worker.py MODEL pytorch|onnx
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import GenerationMixin
from transformers.utils import logging

from peers.to_m2m100 import to_m2m100
from specmt.decoding.rows import target_limit
from specmt.models.folder import PIECES, VERIFIER, ModelFolder
from specmt.text.pieces import Pieces
from specmt.types import EOS, PAD


@torch.inference_mode()
def translate(
    model: GenerationMixin, sources: Sequence[list[int]], batch_size: int, max_length: int
) -> list[list[int]]:
    """Returns the ids of translations, those of like length made side by side.

    :param sources: ids without EOS
    """
    order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
    found: dict[int, list[int]] = {}
    for start in range(0, len(order), batch_size):
        indices = order[start : start + batch_size]
        width = len(sources[indices[-1]]) + 1
        rows = [[*sources[index], EOS] + [PAD] * (width - 1 - len(sources[index])) for index in indices]
        ids = torch.tensor(rows)
        limit = target_limit(width, max_length)
        mask = (ids != PAD).long()
        output = model.generate(ids, attention_mask=mask, max_new_tokens=limit, do_sample=False, num_beams=1)
        for index, row in zip(indices, output[:, 1:].tolist(), strict=True):
            found[index] = row[: row.index(EOS)] if EOS in row else row
    return [found[index] for index in range(len(sources))]


def main() -> None:
    logging.set_verbosity_error()
    folder = ModelFolder.read(Path(sys.argv[1]))
    pieces = Pieces(folder.verified(PIECES))
    built: dict[tuple[str, int], Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        dtype, threads = key = request["dtype"], request["threads"]
        if key not in built:  # before the clock runs
            model = to_m2m100(folder.verifier, folder.weights(VERIFIER))
            if sys.argv[2] == "onnx":
                from peers.to_onnx import to_onnx

                built[key] = to_onnx(model, threads, int8=dtype == "int8")
            else:
                built[key] = model.to(getattr(torch, dtype))
        torch.set_num_threads(threads)
        started = time.perf_counter()
        sources = pieces.encode_batch(request["lines"])
        tokens = translate(built[key], sources, request["batch_size"], folder.verifier.max_length)
        texts = [pieces.decode(each) for each in tokens]
        seconds = time.perf_counter() - started
        print(json.dumps({"seconds": seconds, "texts": texts, "pieces": list(map(pieces.pieces, tokens))}), flush=True)


if __name__ == "__main__":
    main()
