"""The verifier on the C++ kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from typing_extensions import override

from specmt.engine.architecture import NO_PREFIXES, Prefixes, Sizes
from specmt.engine.arrays import Floats, empty
from specmt.engine.cache import State
from specmt.engine.kernels.boundary import check_range
from specmt.engine.kernels.network import KernelEncoderOutput, begins
from specmt.engine.kernels.runner import KernelRunner
from specmt.engine.kernels.stack import Packed, Stack
from specmt.engine.kernels.structures import Alignment, Encoding, cache_view
from specmt.engine.protocols import Verifier
from specmt.engine.threads import thread_count
from specmt.options import AlignmentHeads
from specmt.types import EOS


class KernelVerifier(KernelRunner, Verifier):
    """The verifier: an encoder, and a decoder that runs the loop by itself."""

    def __init__(self, packed: Packed, sizes: Sizes, format: str, prefixes: Prefixes = NO_PREFIXES) -> None:
        super().__init__(packed, sizes, format)
        self.prefixes = prefixes
        self._encoder = Stack(packed, "encoder", sizes.encoder_layers, sizes, format)

    @override
    def encode(self, sources: Sequence[Sequence[int]]) -> KernelEncoderOutput:
        """Returns the encoder's output for sources given as ids without prefix and EOS."""
        encoder = self._encoder.struct
        # Lists: sentences are short, and calls on arrays are not.
        flat = [token for source in sources for token in (*self.prefixes.source, *source, EOS)]
        tokens = np.array(flat, dtype=np.int64)
        lengths = [len(self.prefixes.source) + len(source) + 1 for source in sources]
        starts = begins(lengths)
        check_range("sources", tokens, 0, encoder.vocab)
        states: Floats = empty((len(tokens), self.width), np.float32)
        for some in self.parts(starts, encoder.layers * (4 * self.width + 2 * encoder.ffn)):
            begin = starts[some.start]
            own = starts[some.start : some.stop + 1] - begin
            call = Encoding(
                threads=thread_count(),
                rows=int(own[-1]),
                sentences=some.stop - some.start,
                tokens=tokens[begin:].ctypes.data,
                starts=own.ctypes.data,
                states=states[begin:].ctypes.data,
            )
            self.library.specmt_encode(encoder, call)
        return KernelEncoderOutput(states, np.array(lengths, dtype=np.int64))

    @override
    def attention(
        self, state: State, rows: Sequence[int], targets: Sequence[Sequence[int]], heads: AlignmentHeads
    ) -> list[Floats]:
        """Returns the attention (T, S) that each token of targets has to each id of its source."""
        read = self.prefixes.read(targets, heads)
        tokens = np.array([token for target in read for token in target], dtype=np.int64)
        starts = begins([len(target) for target in read])
        places = np.array(rows, dtype=np.int64)
        check_range("targets", tokens, 0, self.vocab_size)
        self.check_state(state, 0)
        check_range("rows", places, 0, state.rows)
        counted = np.zeros(self.sizes.heads, dtype=np.int8)
        counted[list(heads.heads)] = 1
        sources = state.sources[places].tolist()
        weights: Floats = np.empty((len(tokens), max(sources)), dtype=np.float32)
        for some in self.parts(starts, (heads.layer + 1) * (4 * self.width + 2 * self.decoder.struct.ffn)):
            begin = starts[some.start]
            own = starts[some.start : some.stop + 1] - begin
            call = Alignment(
                threads=thread_count(),
                sentences=some.stop - some.start,
                layer=heads.layer,
                tokens=tokens[begin:].ctypes.data,
                starts=own.ctypes.data,
                places=places[some.start :].ctypes.data,
                sources=state.sources.ctypes.data,
                cross=cache_view(state.cross.data),
                heads=counted.ctypes.data,
                stride=weights.shape[1],
                weights=weights[begin:].ctypes.data,
            )
            self.library.specmt_align(self.decoder.struct, call)
        each = zip(np.split(weights, starts[1:-1]), targets, sources, strict=True)
        return [self.prefixes.pick(*one, heads) for one in each]
