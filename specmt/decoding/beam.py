"""Beam search through fairseq2's own generator: the reference that quality and speed are compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, final

import torch

from specmt.decoding.loop import Finished, target_limit
from specmt.decoding.request import Request
from specmt.engine.backend import NO_PREFIXES, Prefixes
from specmt.engine.cache import round_up
from specmt.options import DecodingOptions
from specmt.types import BOS, EOS, PAD, UNK, Hypothesis, Stats

if TYPE_CHECKING:
    from fairseq2.models.transformer import TransformerModel

    from specmt.models.hub import Model


@final
class BeamSearch:
    """Takes the turns of a session that are for beam search."""

    def __init__(self, model: Model, options: DecodingOptions, capacity: int) -> None:
        self.model = model
        self.options = options
        self.capacity = capacity
        self.requests: list[Request] = []

    @property
    def is_busy(self) -> bool:
        """Whether there are requests that are not finished."""
        return bool(self.requests)

    def add(self, request: Request) -> None:
        """Takes in a request."""
        self.requests.append(request)

    def cancel(self, key: int) -> bool:
        """Drops a request; returns whether it was there."""
        before = len(self.requests)
        self.requests = [request for request in self.requests if request.key != key]
        return len(self.requests) < before

    def turn(self) -> list[Finished]:
        """Decodes what has come; returns all of it."""
        model, requests = self.model, self.requests
        options = replace(self.options, batch_size=self.capacity)
        sources = [request.source for request in requests]
        found = beam_search(model.reference, sources, options, model.verifier.prefixes)
        self.requests = []
        return [(request.key, hypothesis) for request, hypothesis in zip(requests, found, strict=True)]


def beam_search(
    model: TransformerModel,
    sources: Sequence[list[int]],
    options: DecodingOptions,
    prefixes: Prefixes = NO_PREFIXES,
) -> list[Hypothesis]:
    """Decodes sentences given as ids without EOS, those of similar length side by side.

    fairseq2 knows one length limit a batch only. Sentences share a batch only if they share a limit, which is that of
    the loop for the source length rounded up: a translation does not depend on what it is batched with.
    """
    from fairseq2.data.tokenizers import VocabularyInfo
    from fairseq2.generation.beam_search import BeamSearchSeq2SeqGenerator
    from fairseq2.nn import BatchLayout

    table = model.get_parameter("decoder_frontend.embed.weight")
    info = VocabularyInfo(size=table.shape[0], unk_idx=UNK, bos_idx=BOS, eos_idx=EOS, pad_idx=PAD)
    hypotheses: dict[int, Hypothesis] = {}
    longest = model.max_target_seq_len - len(prefixes.target)
    for indices in _batches(sources, options, longest):
        ids = [[*prefixes.source, *sources[index], EOS] for index in indices]
        lengths = [len(row) for row in ids]
        width = max(lengths)
        batch = torch.tensor([row + [PAD] * (width - len(row)) for row in ids], device=table.device)
        prompts = torch.tensor([prefixes.start] * len(ids), device=table.device)
        generator = BeamSearchSeq2SeqGenerator(
            model,
            info,
            beam_size=options.beam_size,
            len_penalty=options.length_penalty,
            max_seq_len=_limit(sources[indices[0]], longest) + len(prefixes.start),
            max_gen_len=(0, longest),
            echo_prompt=True,
        )
        output = generator(batch, BatchLayout.of(batch, lengths), prompts, BatchLayout.of(prompts))
        for index, candidates in zip(indices, output.hypotheses, strict=True):
            tokens = candidates[0].seq[len(prefixes.start) :].tolist()
            # The candidate's own score is divided by a power of the length; its steps are log-probabilities.
            steps = candidates[0].step_scores
            score = math.nan
            if steps is not None and options.scores:
                score = float(steps[len(prefixes.start) :].double().sum())
            stats = Stats(
                sentences=1, source_tokens=len(sources[index]) + 1, tokens=len(tokens), verifier_calls=len(tokens)
            )
            hypotheses[index] = Hypothesis([i for i in tokens if i not in (BOS, EOS)], score, stats)
    return [hypotheses[index] for index in range(len(sources))]


def _limit(source: list[int], longest: int) -> int:
    return target_limit(round_up(len(source) + 1), longest)


def _batches(sources: Sequence[list[int]], options: DecodingOptions, longest: int) -> list[list[int]]:
    order = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
    batches: list[list[int]] = []
    for index in order:
        batch = batches[-1] if batches else []
        widest = len(sources[batch[0]]) + 1 if batch else 0
        full = len(batch) == options.batch_size or (len(batch) + 1) * widest > options.batch_tokens
        if not batch or full or _limit(sources[batch[0]], longest) != _limit(sources[index], longest):
            batches.append([index])
        else:
            batch.append(index)
    return batches
