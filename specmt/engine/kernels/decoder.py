"""Decoders on the C++ kernels: they score windows, and draft by going ahead."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from specmt.engine.arrays import Floats, Ids
from specmt.engine.cache import State
from specmt.engine.kernels.logits import KernelLogits
from specmt.engine.kernels.network import KernelNetwork, counted
from specmt.engine.kernels.structures import LAST
from specmt.engine.levels import LevelExpander
from specmt.engine.protocols import DraftNetwork, EncoderOutput, Expander, Scorer
from specmt.engine.window import Window
from specmt.types import EOS


class KernelDecoder(KernelNetwork, Scorer, DraftNetwork):
    """A decoder over encoder output: one call runs a whole stack, and nothing is padded."""

    @override
    def score(self, window: Window, state: State) -> KernelLogits:
        """Runs a window and returns what follows each of its tokens."""
        return KernelLogits(self.library, self.step(window, state), window.tokens.shape[1], window.counts)

    @override
    def chain(self, read: Window, ahead: int, state: State) -> tuple[Ids, Floats]:
        """Returns the best continuations (B, K), which end where those of all sentences have, and log-probabilities."""
        call, _, needed = self.call(counted(read)[0], state, LAST, ahead=ahead, compact=True)
        shape = len(read.tokens), ahead
        drafts, log_probs = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.float32)
        outputs = drafts.ctypes.data, log_probs.ctypes.data
        made = self.library.specmt_ahead(self.decoder.struct, call, ahead, EOS, *outputs)
        del needed
        return drafts[:, :made], log_probs[:, :made]

    @override
    def expander(self, read: Window, ahead: int, state: State) -> Expander:
        read, counts = counted(read)
        logits = KernelLogits(self.library, self.step(read, state, LAST), 1)
        root = read._replace(starts=read.starts + counts - 1, counts=None)
        return LevelExpander(lambda level: self.score(level, state).candidates(), root, logits.candidates())


class KernelReplica(KernelDecoder):
    """A verifier's decoder in a cheaper format, over the verifier's own caches."""

    @override
    def start(self, state: State, rows: Ids, encoded: EncoderOutput) -> None:
        """Notes what may be said of new sentences; what is known of their sources is the verifier's."""
        self.allow(state, rows, encoded)
