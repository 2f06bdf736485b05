"""Beam search through fairseq2's own generator: the reference that quality and speed are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from specmt.config import DecodingOptions
from specmt.decoding.loop import target_limit
from specmt.types import BOS, EOS, PAD, UNK, Hypothesis, Stats

if TYPE_CHECKING:
    from fairseq2.models.transformer import TransformerModel


def beam_search(model: TransformerModel, sources: Sequence[list[int]], options: DecodingOptions) -> list[Hypothesis]:
    """Decodes sentences given as ids without EOS, those of similar length side by side."""
    from fairseq2.data.tokenizers import VocabularyInfo
    from fairseq2.generation.beam_search import BeamSearchSeq2SeqGenerator
    from fairseq2.nn import BatchLayout

    table = model.get_parameter("encoder_frontend.embed.weight")
    info = VocabularyInfo(size=table.shape[0], unk_idx=UNK, bos_idx=BOS, eos_idx=EOS, pad_idx=PAD)
    hypotheses: dict[int, Hypothesis] = {}
    for indices in _batches(sources, options):
        ids = [[*sources[index], EOS] for index in indices]
        lengths = [len(row) for row in ids]
        width = max(lengths)
        batch = torch.tensor([row + [PAD] * (width - len(row)) for row in ids], device=table.device)
        prompts = torch.full((len(ids), 1), BOS, device=table.device)
        generator = BeamSearchSeq2SeqGenerator(
            model,
            info,
            beam_size=options.beam_size,
            len_penalty=options.length_penalty,
            max_seq_len=target_limit(width, model.max_target_seq_len) + 1,
            max_gen_len=(1, model.max_target_seq_len),
        )
        output = generator(batch, BatchLayout.of(batch, lengths), prompts, BatchLayout.of(prompts))
        for index, length, candidates in zip(indices, lengths, output.hypotheses, strict=True):
            tokens = candidates[0].seq.tolist()
            score = float(candidates[0].score) if candidates[0].score is not None else float("nan")
            stats = Stats(sentences=1, source_tokens=length, tokens=len(tokens), verifier_calls=len(tokens))
            hypotheses[index] = Hypothesis([i for i in tokens if i not in (BOS, EOS)], score, stats)
    return [hypotheses[index] for index in range(len(sources))]


def _batches(sources: Sequence[list[int]], options: DecodingOptions) -> list[list[int]]:
    order = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
    batches: list[list[int]] = []
    for index in order:
        batch = batches[-1] if batches else []
        widest = len(sources[batch[0]]) + 1 if batch else 0
        if not batch or len(batch) == options.batch_size or (len(batch) + 1) * widest > options.batch_tokens:
            batches.append([index])
        else:
            batch.append(index)
    return batches
