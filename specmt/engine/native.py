"""Verifier and masked drafter on the C++ kernels: one call runs a whole stack, nothing is padded.

A row's bits depend on its own sentence alone, by construction (kernels.cpp), so that no granule is needed here. Keys
and values are kept in float32; with bfloat16 weights every sum is still taken in float32.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from specmt.engine.backend import Memory, Sizes, State
from specmt.engine.cache import CrossCache, KVCache
from specmt.engine.transformer import Weights, scale_queries, sinusoids
from specmt.types import EOS

LANES: Final = 16
HEAD_DIMS: Final = (16, 32, 48, 64, 96, 128)
REVISION: Final = 1
"""The same number as in kernels.cpp."""
TYPES: Final = {torch.float32: 0, torch.bfloat16: 1}

Ids = npt.NDArray[np.int64]

# The structures of kernels.cpp, field by field.
_pointer, _int32, _int64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64


class _Linear(ctypes.Structure):
    _fields_ = (("weight", _pointer), ("bias", _pointer), ("outputs", _int32), ("inputs", _int32))


class _Norm(ctypes.Structure):
    _fields_ = (("weight", _pointer), ("bias", _pointer))


class _Layer(ctypes.Structure):
    _fields_ = (
        ("attention_norm", _Norm),
        ("qkv", _Linear),
        ("attention_out", _Linear),
        ("cross_norm", _Norm),
        ("cross_query", _Linear),
        ("cross_key_value", _Linear),
        ("cross_out", _Linear),
        ("ffn_norm", _Norm),
        ("ffn_in", _Linear),
        ("ffn_out", _Linear),
    )


class _Network(ctypes.Structure):
    _fields_ = (
        ("type", _int32),
        ("layers", _int32),
        ("width", _int32),
        ("heads", _int32),
        ("ffn", _int32),
        ("places", _int32),
        ("table", _pointer),
        ("positions", _pointer),
        ("layer", ctypes.POINTER(_Layer)),
        ("norm", _Norm),
        ("project", _Linear),
    )


class _Cache(ctypes.Structure):
    _fields_ = (("data", _pointer), ("layer", _int64), ("value", _int64), ("row", _int64), ("head", _int64))


class _Step(ctypes.Structure):
    _fields_ = (
        ("threads", _int32),
        ("rows", _int32),
        ("projected", _int32),
        ("tokens", _pointer),
        ("sentences", _pointer),
        ("positions", _pointer),
        ("limits", _pointer),
        ("sources", _pointer),
        ("project", _pointer),
        ("self", _Cache),
        ("cross", _Cache),
        ("logits", _pointer),
    )


class _Encoding(ctypes.Structure):
    _fields_ = (
        ("threads", _int32),
        ("rows", _int32),
        ("sentences", _int32),
        ("tokens", _pointer),
        ("positions", _pointer),
        ("starts", _pointer),
        ("memory", _pointer),
    )


class _Crossing(ctypes.Structure):
    _fields_ = (
        ("threads", _int32),
        ("rows", _int32),
        ("sentences", _int32),
        ("memory", _pointer),
        ("starts", _pointer),
        ("places", _pointer),
        ("cross", _Cache),
    )


class _Chain(ctypes.Structure):
    _fields_ = (
        ("sentences", _int32),
        ("slots", _int32),
        ("vocab", _int32),
        ("rank", _int32),
        ("stride", _int64),
        ("logits", _pointer),
        ("last", _pointer),
        ("previous", _pointer),
        ("following", _pointer),
        ("tokens", _pointer),
        ("log_probs", _pointer),
    )


@cache
def kernels() -> ctypes.CDLL | None:
    """Returns the kernels, or ``None`` where they were not built or the processor cannot run them."""
    spec = importlib.util.find_spec("specmt.engine.kernels")
    if spec is None or spec.origin is None or not spec.origin.endswith(".so"):
        return None
    library = ctypes.CDLL(spec.origin)
    return library if library.specmt_supported(REVISION) else None


def can_run(table: Tensor, sizes: Sizes, ffn: int, device: torch.device, dtype: torch.dtype) -> bool:
    """Returns whether the kernels are there and made for a network with an embedding table (V, D)."""
    width = table.shape[1]
    fits = width % LANES == 0 and ffn % LANES == 0 and width // sizes.heads in HEAD_DIMS
    return fits and device.type == "cpu" and dtype in TYPES and kernels() is not None


class _Stack:
    """A stack of layers with its weights packed: panels of 16 outputs, inputs one after the other (bf16: in pairs)."""

    def __init__(
        self,
        weights: Weights,
        name: str,
        layers: int,
        *,
        sizes: Sizes,
        table: Tensor,
        project: Tensor | None,
        dtype: torch.dtype,
    ) -> None:
        """
        :param table: scaled embeddings (V', D)
        :param project: the projection to the vocabulary (V, D), for decoders
        """
        self._weights = weights
        self._dtype = dtype
        self._kept: list[object] = []  # what the structure points to
        width = table.shape[1]
        array = (_Layer * layers)(*(self._layer(f"{name}.layers.{number}", sizes.heads) for number in range(layers)))
        self._kept.append(array)
        self.struct = _Network(
            type=TYPES[dtype],
            layers=layers,
            width=width,
            heads=sizes.heads,
            ffn=array[0].ffn_in.outputs,
            places=sizes.max_length,
            table=self._pin(table),
            positions=self._pin(sinusoids(sizes.max_length, width)),
            layer=array,
            norm=self._norm(f"{name}.layer_norm"),
            project=_Linear() if project is None else self._pack(project, None),
        )
        del self._weights  # packed by now

    def _pin(self, tensor: Tensor) -> int:
        tensor = tensor.float().contiguous()
        self._kept.append(tensor)
        return tensor.data_ptr()

    def _norm(self, name: str) -> _Norm:
        return _Norm(self._pin(self._weights[f"{name}.weight"]), self._pin(self._weights[f"{name}.bias"]))

    def _pack(self, weight: Tensor, bias: Tensor | None) -> _Linear:
        outputs, inputs = weight.shape
        padding = -outputs % LANES
        step = 2 if self._dtype == torch.bfloat16 else 1
        padded = functional.pad(weight.float(), (0, 0, 0, padding))
        packed = padded.view(-1, LANES, inputs // step, step).permute(0, 2, 1, 3).to(self._dtype).contiguous()
        self._kept.append(packed)
        pinned = None if bias is None else self._pin(functional.pad(bias.float(), (0, padding)))
        return _Linear(packed.data_ptr(), pinned, outputs + padding, inputs)

    def _linear(self, *names: str) -> _Linear:
        weight, bias = (torch.cat([self._weights[f"{name}.{kind}"].float() for name in names]) for kind in KINDS)
        return self._pack(weight, bias)

    def _layer(self, name: str, heads: int) -> _Layer:
        layer = _Layer(
            attention_norm=self._norm(f"{name}.self_attn_layer_norm"),
            qkv=self._projections(f"{name}.self_attn", "qkv", heads),
            attention_out=self._linear(f"{name}.self_attn.output_proj"),
            ffn_norm=self._norm(f"{name}.ffn_layer_norm"),
            ffn_in=self._linear(f"{name}.ffn.inner_proj"),
            ffn_out=self._linear(f"{name}.ffn.output_proj"),
        )
        cross = f"{name}.encoder_decoder_attn"
        if f"{cross}.q_proj.weight" in self._weights:
            layer.cross_norm = self._norm(f"{cross}_layer_norm")
            layer.cross_query = self._projections(cross, "q", heads)
            layer.cross_key_value = self._projections(cross, "kv", heads)
            layer.cross_out = self._linear(f"{cross}.output_proj")
        return layer

    def _projections(self, name: str, parts: str, heads: int) -> _Linear:
        # In float32 before they are scaled: what is stored may have fewer bits.
        weights = {key: tensor.float() for key, tensor in self._weights.items() if key.startswith(f"{name}.")}
        weight, bias = (scale_queries(weights, name, parts, kind, heads) for kind in KINDS)
        return self._pack(weight, bias)


KINDS: Final = ("weight", "bias")


class _NativeNetwork:
    """What verifier and drafter have in common."""

    def __init__(self, weights: Weights, table: Tensor, mask: Tensor | None, sizes: Sizes, dtype: torch.dtype) -> None:
        """
        :param table: token embeddings (V, D)
        :param mask: the embedding (D) of [MASK], which becomes id V
        """
        library = kernels()
        if library is None:
            raise RuntimeError("The kernels are not there; ask `can_run` first.")
        self._library = library
        self.sizes = sizes
        self.dtype = dtype
        self.device = torch.device("cpu")
        self.vocab_size, self.width = table.shape
        self._table = table.float() * self.width**0.5
        extended = self._table if mask is None else torch.cat([self._table, mask.float()[None]])
        self._decoder = _Stack(
            weights, "decoder", sizes.decoder_layers, sizes=sizes, table=extended, project=table, dtype=dtype
        )

    def new_state(self, rows: int) -> State:
        """Returns empty caches for a number of rows."""
        shape = (self.sizes.decoder_layers, rows, self.sizes.heads, self.width // self.sizes.heads)
        return State(
            KVCache(*shape, dtype=torch.float32, device=self.device),
            CrossCache(*shape, dtype=torch.float32, device=self.device),
        )

    def start(self, state: State, rows: Tensor, memory: Memory) -> None:
        """Gives rows (B') new sentences with the verifier's memory (R, D) of them."""
        state.cross.reserve(int(memory.lengths.max()))
        state.cross.lengths[rows] = memory.lengths
        starts = _starts(memory.lengths.numpy())
        call = _Crossing(
            threads=torch.get_num_threads(),
            rows=len(memory.states),
            sentences=len(rows),
            memory=memory.states.data_ptr(),
            starts=starts.ctypes.data,
            places=rows.data_ptr(),
            cross=_cache(state.cross.data),
        )
        self._library.specmt_cross(ctypes.byref(self._decoder.struct), ctypes.byref(call))

    def _run(self, tokens: Ids, sentences: Ids, positions: Ids, limits: Ids, projected: Ids, state: State) -> Tensor:
        """Runs single rows (R) of any sentences; returns the logits (R', V) of those in ``projected`` (R')."""
        state.cache.reserve(int(positions.max()) + 1)
        logits = torch.empty(len(projected), self._decoder.struct.project.outputs, dtype=torch.float32)
        call = _Step(
            threads=torch.get_num_threads(),
            rows=len(tokens),
            projected=len(projected),
            tokens=tokens.ctypes.data,
            sentences=sentences.ctypes.data,
            positions=positions.ctypes.data,
            limits=limits.ctypes.data,
            sources=state.cross.lengths.data_ptr(),
            project=projected.ctypes.data,
            self=_cache(state.cache.data),
            cross=_cache(state.cross.data),
            logits=logits.data_ptr(),
        )
        self._library.specmt_step(ctypes.byref(self._decoder.struct), ctypes.byref(call))
        return logits[:, : self.vocab_size]


class NativeVerifier(_NativeNetwork):
    """The verifier (names of weights as in the fairseq2 model)."""

    def __init__(self, weights: Weights, sizes: Sizes, dtype: torch.dtype) -> None:
        super().__init__(weights, weights["encoder_frontend.embed.weight"], None, sizes, dtype)
        self._encoder = _Stack(
            weights, "encoder", sizes.encoder_layers, sizes=sizes, table=self._table, project=None, dtype=dtype
        )

    def encode(self, sources: Sequence[Sequence[int]]) -> Memory:
        """Returns the memory (R, D) of sources given as ids without EOS, one sentence after the other."""
        lengths = np.array([len(source) + 1 for source in sources], dtype=np.int64)
        starts = _starts(lengths)
        tokens = np.array([token for source in sources for token in (*source, EOS)], dtype=np.int64)
        positions = np.arange(len(tokens)) - np.repeat(starts[:-1], lengths)
        states = torch.empty(len(tokens), self.width, dtype=torch.float32)
        call = _Encoding(
            threads=torch.get_num_threads(),
            rows=len(tokens),
            sentences=len(sources),
            tokens=tokens.ctypes.data,
            positions=positions.ctypes.data,
            starts=starts.ctypes.data,
            memory=states.data_ptr(),
        )
        self._library.specmt_encode(ctypes.byref(self._encoder.struct), ctypes.byref(call))
        return Memory(states, torch.from_numpy(lengths))

    def score(self, tokens: Tensor, starts: Tensor, state: State) -> Tensor:
        """Runs a window (B', W) and returns the logits (B', W, V) of what follows each of its tokens."""
        rows, window = tokens.shape
        positions = (starts.numpy()[:, None] + np.arange(window)).reshape(-1)
        sentences = np.repeat(np.arange(rows), window)
        ids = np.ascontiguousarray(tokens.numpy()).reshape(-1)
        logits = self._run(ids, sentences, positions, positions, np.arange(rows * window), state)
        return logits.view(rows, window, -1)


class NativeDrafter(_NativeNetwork):
    """The masked drafter."""

    def __init__(self, weights: Weights, sizes: Sizes, dtype: torch.dtype) -> None:
        super().__init__(weights, weights["embed.weight"], weights["mask_embedding"], sizes, dtype)
        self.previous = weights["correction.previous.weight"].float().contiguous()  # (V, R)
        self.following = weights["correction.following.weight"].float().contiguous()  # (V, R)

    def propose(
        self, tokens: Tensor, starts: Tensor, counts: Tensor, block_size: int, state: State
    ) -> tuple[Tensor, Tensor]:
        """Reads tokens (B', M) committed since the last call and drafts a block (B', K) with log-probabilities."""
        rows, widest = tokens.shape
        offsets = np.arange(widest + block_size)
        first, fresh = starts.numpy()[:, None], counts.numpy()[:, None]
        real = offsets < fresh + block_size
        slots = real & (offsets >= fresh)
        ids = np.pad(tokens.numpy(), ((0, 0), (0, block_size)))
        ids[slots] = self.vocab_size
        positions = first + offsets
        limits = np.where(slots, first + fresh + block_size - 1, positions)
        sentences = np.repeat(np.arange(rows), fresh[:, 0] + block_size)
        projected = np.flatnonzero(slots[real])
        logits = self._run(ids[real], sentences, positions[real], limits[real], projected, state)
        return self._chain(logits, tokens.gather(1, counts[:, None] - 1), block_size)

    def _chain(self, logits: Tensor, last: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
        """Does what :func:`specmt.engine.chain.best_chain` does, for logits (B' K, V)."""
        drafts = torch.empty(len(last), block_size, dtype=torch.int64)
        log_probs = torch.empty(len(last), block_size, dtype=torch.float32)
        call = _Chain(
            sentences=len(last),
            slots=block_size,
            vocab=self.vocab_size,
            rank=self.previous.shape[1],
            stride=logits.stride(0),
            logits=logits.data_ptr(),
            last=last.data_ptr(),
            previous=self.previous.data_ptr(),
            following=self.following.data_ptr(),
            tokens=drafts.data_ptr(),
            log_probs=log_probs.data_ptr(),
        )
        self._library.specmt_chain(ctypes.byref(call))
        return drafts, log_probs


def _starts(lengths: Ids) -> Ids:
    """Returns where each of several sequences begins, and where the last ends; (B) → (B + 1)."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])


def _cache(data: Tensor) -> _Cache:
    layer, value, row, head, _, _ = data.stride()
    return _Cache(data.data_ptr(), layer, value, row, head)
