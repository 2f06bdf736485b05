"""Translates with Hugging Face's ``generate`` in a process of its own: one request a line of standard input, JSON."""

from __future__ import annotations

import json
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers import M2M100ForConditionalGeneration
from transformers.utils import logging

from peers.to_m2m100 import to_assistant, to_m2m100
from specmt.decoding.loop import target_limit
from specmt.models.folder import AUTOREGRESSIVE, PIECES, VERIFIER, ModelFolder
from specmt.text.pieces import Pieces
from specmt.types import EOS, PAD


class Generator:
    """A verifier and the drafter that assists it, in each type that was asked for."""

    def __init__(self, folder: ModelFolder) -> None:
        self.folder = folder
        self.pieces = Pieces(folder.verified(PIECES))
        self.models = cache(self._models)

    def _models(self, dtype: str) -> tuple[M2M100ForConditionalGeneration, M2M100ForConditionalGeneration | None]:
        kind = getattr(torch, dtype)
        verifier = to_m2m100(self.folder.verifier, self.folder.weights(VERIFIER)).to(kind)
        if self.folder.autoregressive is None:
            return verifier, None
        weights = self.folder.weights(AUTOREGRESSIVE)
        return verifier, to_assistant(verifier, self.folder.autoregressive, weights).to(kind)

    @torch.inference_mode()
    def translate(
        self, lines: list[str], *, dtype: str, threads: int, batch_size: int, assisted: int
    ) -> tuple[list[str], list[list[int]]]:
        """Returns texts and ids of translations, those of like length made side by side.

        :param assisted: how many tokens the assistant drafts at most, if it is not 0.
        """
        torch.set_num_threads(threads)
        verifier, assistant = self.models(dtype)
        options: dict[str, Any] = {"do_sample": False, "num_beams": 1}
        if assisted:
            if assistant is None:
                raise ValueError(f"{self.folder.path}: the model has no autoregressive drafter.")
            assistant.generation_config.num_assistant_tokens = assisted
            options["assistant_model"] = assistant
        sources = [[*ids, EOS] for ids in self.pieces.encode_batch(lines)]
        order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
        found: dict[int, list[int]] = {}
        for start in range(0, len(order), batch_size):
            indices = order[start : start + batch_size]
            width = len(sources[indices[-1]])
            ids = torch.tensor([sources[index] + [PAD] * (width - len(sources[index])) for index in indices])
            limit = target_limit(width, self.folder.verifier.max_length)
            output = verifier.generate(ids, attention_mask=(ids != PAD).long(), max_new_tokens=limit, **options)
            for index, row in zip(indices, output[:, 1:].tolist(), strict=True):
                found[index] = row[: row.index(EOS)] if EOS in row else row
        tokens = [found[index] for index in range(len(sources))]
        return [self.pieces.decode(each) for each in tokens], tokens


def main() -> None:
    logging.set_verbosity_error()  # it warns of the assistant's settings, which are meant
    generator = Generator(ModelFolder.read(Path(sys.argv[1])))
    for line in sys.stdin:
        request = json.loads(line)
        generator.models(request["dtype"])  # built before the clock runs
        started = time.perf_counter()
        texts, tokens = generator.translate(**request)
        seconds = time.perf_counter() - started
        pieces = [generator.pieces.pieces(each) for each in tokens]
        print(json.dumps({"seconds": seconds, "texts": texts, "pieces": pieces}), flush=True)


if __name__ == "__main__":
    main()
