"""fairseq2's beam search on its own modules: the reference of ours, for quality and for speed."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import specmt.models.reference  # noqa: F401  (makes fairseq2 importable)
from specmt.decoding.rows import target_limit
from specmt.models.hub import Model
from specmt.options import DecodingOptions
from specmt.types import BOS, EOS, PAD, UNK, Found

from fairseq2.data.tokenizers import VocabularyInfo  # isort: skip  (specmt.models.reference makes it importable)
from fairseq2.generation.beam_search import BeamSearchSeq2SeqGenerator  # isort: skip
from fairseq2.nn import BatchLayout  # isort: skip


def search(model: Model, sources: Sequence[Sequence[int]], options: DecodingOptions) -> list[list[Found]]:
    """Returns all translations that fairseq2 finds of each of some sentences side by side, the best first.

    :param sources: ids without prefix and EOS
    """
    prefixes, reference = model.verifier.prefixes, model.reference
    rows = [[*prefixes.source, *source, EOS] for source in sources]
    lengths = [len(row) for row in rows]
    ids = torch.tensor([row + [PAD] * (max(lengths) - len(row)) for row in rows])
    prompts = torch.tensor([prefixes.start] * len(rows))
    limit = target_limit(max(map(len, sources)) + 1, reference.max_target_seq_len - len(prefixes.target))
    generator = BeamSearchSeq2SeqGenerator(
        reference,
        VocabularyInfo(size=model.folder.verifier.vocab_size, unk_idx=UNK, bos_idx=BOS, eos_idx=EOS, pad_idx=PAD),
        beam_size=options.beam_size,
        len_penalty=options.length_penalty,
        max_seq_len=limit + len(prefixes.start),
        max_gen_len=(0, reference.max_target_seq_len),
    )
    every = generator(ids, BatchLayout.of(ids, lengths), prompts, BatchLayout.of(prompts)).hypotheses
    return [
        [
            Found(
                each.seq[:-1].tolist(),
                float("nan") if each.step_scores is None else float(each.step_scores.double().sum()),
            )
            for each in found
        ]
        for found in every
    ]
