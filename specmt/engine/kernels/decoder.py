"""Decoders on the C++ kernels: they score windows, and draft by going ahead."""

from __future__ import annotations

import numpy as np
from typing_extensions import override

from specmt.engine.arrays import Floats, Ids
from specmt.engine.cache import State
from specmt.engine.kernels.logits import KernelLogits
from specmt.engine.kernels.network import KernelNetwork, counted
from specmt.engine.kernels.structures import LAST
from specmt.engine.protocols import DraftNetwork, EncoderOutput, Expander, Scorer
from specmt.engine.window import Branches, Window
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
        return _LevelExpander(self, state, root, logits)


class _LevelExpander(Expander):
    """The distributions of a decoder: each level of a tree is an input for the next."""

    def __init__(self, network: KernelDecoder, state: State, root: Window, logits: KernelLogits) -> None:
        """
        :param root: where the last committed tokens stand
        :param logits: (B, 1, V) of what follows them
        """
        self.network, self.state, self.root = network, state, root
        self.logits = logits
        self.paths: Ids | None = None  # (B, W, P) of the last level
        self.count = 1  # tokens in the tree so far, the root included

    @override
    def expand(self, tokens: Ids, parents: Ids) -> tuple[Ids, Floats]:
        if self.paths is None:
            self.paths = parents[:, :, None]  # the root, whose logits are there
            return self.logits.candidates()
        rows, width = tokens.shape
        own = np.broadcast_to(np.arange(self.count, self.count + width), (rows, width))
        before = np.take_along_axis(self.paths, parents[:, :, None], axis=1)
        self.paths = np.concatenate([before, own[:, :, None]], axis=2)
        depths = np.full((rows, width), self.paths.shape[2] - 1)
        level = self.root._replace(tokens=tokens, branches=Branches(depths, self.paths, self.count))
        self.count += width
        return self.network.score(level, self.state).candidates()


class KernelReplica(KernelDecoder):
    """A verifier's decoder in a cheaper format, over the verifier's own caches."""

    @override
    def start(self, state: State, rows: Ids, encoded: EncoderOutput) -> None:
        """Notes what may be said of new sentences; what is known of their sources is the verifier's."""
        self.allow(state, rows, encoded)
