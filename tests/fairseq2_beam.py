"""fairseq2's beam search: what ours must find."""

from __future__ import annotations

import torch

from specmt.decoding.rows import target_limit
from specmt.models.hub import Model
from specmt.options import DecodingOptions
from specmt.types import BOS, EOS, PAD, UNK, Found

from fairseq2.data.tokenizers import VocabularyInfo  # isort: skip  (specmt.models makes it importable)
from fairseq2.generation.beam_search import BeamSearchSeq2SeqGenerator  # isort: skip
from fairseq2.nn import BatchLayout  # isort: skip


def fairseq2_beam(model: Model, source: list[int], options: DecodingOptions) -> list[Found]:
    """Returns all translations that fairseq2 finds of one sentence, the best first."""
    prefixes, reference = model.verifier.prefixes, model.reference
    size = model.folder.verifier.vocab_size
    ids = torch.tensor([[*prefixes.source, *source, EOS]])
    prompt = torch.tensor([prefixes.start])
    limit = target_limit(len(source) + 1, reference.max_target_seq_len - len(prefixes.target))
    generator = BeamSearchSeq2SeqGenerator(
        reference,
        VocabularyInfo(size=size, unk_idx=UNK, bos_idx=BOS, eos_idx=EOS, pad_idx=PAD),
        beam_size=options.beam_size,
        len_penalty=options.length_penalty,
        max_seq_len=limit + len(prefixes.start),
        max_gen_len=(0, reference.max_target_seq_len),
    )
    found = generator(ids, BatchLayout.of(ids), prompt, BatchLayout.of(prompt)).hypotheses[0]
    translations = []
    for each in found:
        assert each.step_scores is not None
        translations.append(Found(each.seq[:-1].tolist(), float(each.step_scores.double().sum())))
    return translations
