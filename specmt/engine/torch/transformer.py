"""Encoder and decoder stacks over plain weight tensors; inference only.

Every operation treats rows alone or in a way that gives the same bits in any company: packed linear layers, attention
over keys in position order, padded as the shapes say (specmt.engine.torch.invariance).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import Identity, functional

from specmt.engine.architecture import Architecture, query_scale
from specmt.engine.torch.invariance import ShapePolicy
from specmt.engine.torch.linear import Linear, linear_of
from specmt.engine.torch.ssru import Ssru
from specmt.engine.torch.windows import Seen

Weights: TypeAlias = Mapping[str, Tensor]


class Norm:
    """Layer normalisation."""

    def __init__(self, weights: Weights, name: str, architecture: Architecture) -> None:
        self.weight, self.bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        self.epsilon = architecture.norm_epsilon

    def __call__(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


class SublayerNorm(Norm):
    """The norm of a sublayer, which stands before it or behind its residual sum."""

    def __init__(self, weights: Weights, name: str, architecture: Architecture) -> None:
        super().__init__(weights, name, architecture)
        self.post = architecture.norm == "post"

    def before(self, x: Tensor) -> Tensor:
        """Returns what the sublayer is given."""
        return x if self.post else self(x)

    def after(self, x: Tensor) -> Tensor:
        """Returns what becomes of the residual sum."""
        return self(x) if self.post else x


def last_norm(weights: Weights, name: str, architecture: Architecture) -> Norm | Identity:
    """Returns the norm behind a stack, if it has one."""
    return Identity() if architecture.norm == "post" else Norm(weights, name, architecture)


def projections(weights: Weights, name: str, parts: str, heads: int) -> Linear:
    """Returns projections of an attention as one layer, those of the queries times 1/√D_h.

    :param parts: which of "qkv"
    """

    def side_by_side(kind: str) -> Tensor:
        tensors = {part: weights[f"{name}.{part}_proj.{kind}"] for part in parts}
        if "q" in tensors:
            tensors["q"] = tensors["q"] * query_scale(len(tensors["q"]), heads)
        return torch.cat(list(tensors.values()))

    return Linear(side_by_side("weight"), side_by_side("bias"))


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, shapes: ShapePolicy) -> Tensor:
    """Returns softmax(q kᵀ + mask) v, softmax in at least float32; queries come scaled.

    :param queries: (B, H, W, D_h)
    :param keys: (B, H, T, D_h), T a multiple of the granule
    :param values: (B, H, T, D_h)
    :param mask: (B, 1, W, T) or (B, 1, 1, T), 0 or −inf
    :returns: (B, H, W, D_h)
    """
    width = queries.shape[2]
    if width < shapes.queries:
        queries = functional.pad(queries, (0, 0, 0, shapes.queries - width))
        if mask.shape[2] > 1:
            mask = functional.pad(mask, (0, 0, 0, shapes.queries - width))
    scores = torch.matmul(queries, keys.transpose(2, 3))
    if scores.dtype == torch.bfloat16 or scores.dtype == torch.float16:
        scores = scores.float()
    weights = scores.add_(mask).softmax(-1)
    return torch.matmul(weights.to(values.dtype), values)[:, :, :width]


def attend_in_order(
    queries: Tensor, keys: Tensor, values: Tensor, order: Tensor, mask: Tensor, shapes: ShapePolicy
) -> Tensor:
    """Returns attention (B, H, W, D_h) with keys and values laid out anew for each query, each as a row of its own.

    :param order: (B, W, T) the places of what each query sees, T a multiple of the granule
    :param mask: (B, 1, W, T)
    """
    rows, heads, window, size = queries.shape
    length = order.shape[2]
    places = order.view(rows, 1, -1, 1).expand(-1, heads, -1, size)

    def lay_out(cached: Tensor) -> Tensor:
        laid = cached.gather(2, places).view(rows, heads, window, length, size)
        return laid.transpose(1, 2).reshape(rows * window, heads, length, size)

    alone = queries.transpose(1, 2).reshape(rows * window, heads, 1, size)
    attended = attend(alone, lay_out(keys), lay_out(values), mask.view(rows * window, 1, 1, length), shapes)
    return attended.view(rows, window, heads, size).transpose(1, 2)


def length_mask(lengths: Tensor, width: int) -> Tensor:
    """Returns (B, 1, 1, S) with 0 where a position is under its row's length, −inf elsewhere."""
    beyond = torch.arange(width, device=lengths.device) >= lengths[:, None]
    return torch.zeros(beyond.shape, device=lengths.device).masked_fill_(beyond, -math.inf)[:, None, None]


class FeedForward:
    """The feed-forward network of a layer, as its last sublayer."""

    def __init__(self, weights: Weights, name: str, architecture: Architecture) -> None:
        self.norm = SublayerNorm(weights, f"{name}.ffn_layer_norm", architecture)
        self.inner = linear_of(weights, f"{name}.ffn.inner_proj")
        self.output = linear_of(weights, f"{name}.ffn.output_proj")
        self.activation = architecture.activation

    def __call__(self, x: Tensor) -> Tensor:
        return self.norm.after(x + self.output(self.inner(self.norm.before(x), activation=self.activation)))


class SelfAttention:
    """Attention of tokens to others of their side."""

    def __init__(self, weights: Weights, name: str, heads: int) -> None:
        self.heads = heads
        self.qkv = projections(weights, f"{name}.self_attn", "qkv", heads)
        self.output = linear_of(weights, f"{name}.self_attn.output_proj")

    def whole(self, x: Tensor, mask: Tensor, shapes: ShapePolicy) -> Tensor:
        """Returns what comes of whole texts (B, T, D), of which nothing is kept, and masks of what they see."""
        rows, length, _ = x.shape
        qkv = self.qkv(x).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = attend(qkv[0], qkv[1], qkv[2], mask, shapes)
        return self.output(attended.transpose(1, 2).reshape(x.shape))

    def __call__(self, x: Tensor, cache: Tensor, seen: Seen, shapes: ShapePolicy) -> Tensor:
        """Returns what comes of windows (B', W, D), and writes their keys and values into a cache (2, B, H, T, D_h)."""
        count, window, _ = x.shape
        qkv = self.qkv(x).view(count, window, 3, self.heads, -1)
        append(cache, qkv[:, :, 1:], seen.numbers, seen.places)
        queries = qkv[:, :, 0].transpose(1, 2)
        if seen.order is None:
            keys, values = cache[:, :, :, : seen.length][:, seen.rows]
            attended = attend(queries, keys, values, seen.mask, shapes)
        else:
            keys, values = cache[:, seen.rows]
            attended = attend_in_order(queries, keys, values, seen.order, seen.mask, shapes)
        return self.output(attended.transpose(1, 2).reshape(x.shape))


class EncoderLayer:
    def __init__(self, weights: Weights, name: str, heads: int, architecture: Architecture) -> None:
        self.attention_norm = SublayerNorm(weights, f"{name}.self_attn_layer_norm", architecture)
        self.attention = SelfAttention(weights, name, heads)
        self.ffn = FeedForward(weights, name, architecture)

    def __call__(self, x: Tensor, mask: Tensor, shapes: ShapePolicy) -> Tensor:
        out = self.attention.whole(self.attention_norm.before(x), mask, shapes)
        return self.ffn(self.attention_norm.after(x + out))


class Encoder:
    """The encoder stack."""

    def __init__(self, weights: Weights, name: str, layers: int, heads: int, architecture: Architecture) -> None:
        names = [f"{name}.layers.{number}" for number in range(layers)]
        self.layers = [EncoderLayer(weights, layer, heads, architecture) for layer in names]
        self.norm = last_norm(weights, f"{name}.layer_norm", architecture)

    def __call__(self, x: Tensor, lengths: Tensor, shapes: ShapePolicy) -> Tensor:
        """Returns the encoder's output (B, S, D) for embedded sources (B, S, D), S a multiple of the granule."""
        mask = length_mask(lengths, x.shape[1])
        for layer in self.layers:
            x = layer(x, mask, shapes)
        return self.norm(x)


class DecoderLayer:
    def __init__(self, weights: Weights, name: str, heads: int, architecture: Architecture) -> None:
        self.heads = heads
        self.own_norm = SublayerNorm(weights, f"{name}.self_attn_layer_norm", architecture)
        attends = architecture.decoder == "attention"
        self.own = SelfAttention(weights, name, heads) if attends else Ssru(weights, name)
        self.cross_norm = SublayerNorm(weights, f"{name}.encoder_decoder_attn_layer_norm", architecture)
        self.cross_query = projections(weights, f"{name}.encoder_decoder_attn", "q", heads)
        self.cross_key_value = projections(weights, f"{name}.encoder_decoder_attn", "kv", heads)
        self.cross_out = linear_of(weights, f"{name}.encoder_decoder_attn.output_proj")
        self.ffn = FeedForward(weights, name, architecture)

    def cross(self, encoded: Tensor) -> Tensor:
        """Returns cross-attention keys and values (2, B, H, S, D_h) for encoder output (B, S, D)."""
        rows, length, _ = encoded.shape
        return self.cross_key_value(encoded).view(rows, length, 2, self.heads, -1).permute(2, 0, 3, 1, 4)


class Decoder:
    """The decoder stack, run on a window of W positions a row at a time, what is kept of them cached."""

    def __init__(self, weights: Weights, name: str, layers: int, heads: int, architecture: Architecture) -> None:
        names = [f"{name}.layers.{number}" for number in range(layers)]
        self.layers = [DecoderLayer(weights, layer, heads, architecture) for layer in names]
        self.norm = last_norm(weights, f"{name}.layer_norm", architecture)
        self.heads = heads

    def cross(self, encoded: Tensor) -> Tensor:
        """Returns the cross-attention keys and values (L, 2, B, H, S, D_h) for encoder output (B, S, D)."""
        return torch.stack([layer.cross(encoded) for layer in self.layers])

    def attention(self, x: Tensor, cross: Tensor, last: int, heads: Sequence[int], shapes: ShapePolicy) -> Tensor:
        """Returns the attention (T, S) of a target's tokens to its source, added up over heads of a layer.

        :param x: (1, T, D) the target, embedded
        :param cross: (L, 2, 1, H, S, D_h) keys and values of its source
        :param last: the number of the layer; those behind it are not run
        """
        length = x.shape[1]
        limits = torch.arange(1, length + 1, device=x.device)
        mask = length_mask(limits, length).transpose(0, 2)  # (1, 1, T, T)
        source_mask = x.new_zeros(1, 1, 1, cross.shape[4], dtype=torch.float32)
        for number, layer in enumerate(self.layers[: last + 1]):
            x = layer.own_norm.after(x + layer.own.whole(layer.own_norm.before(x), mask, shapes))
            queries = layer.cross_query(layer.cross_norm.before(x)).view(1, length, self.heads, -1).transpose(1, 2)
            keys, values = cross[number]
            if number < last:
                attended = attend(queries, keys, values, source_mask, shapes)
                x = layer.cross_norm.after(x + layer.cross_out(attended.transpose(1, 2).reshape(x.shape)))
                x = layer.ffn(x)
        scores = torch.matmul(queries[0, list(heads)].float(), keys[0, list(heads)].float().transpose(1, 2))
        return scores.softmax(-1).sum(0)

    def __call__(
        self, x: Tensor, cache: Tensor, cross: Tensor, lengths: Tensor, seen: Seen, shapes: ShapePolicy
    ) -> Tensor:
        """Runs windows and writes what is kept of their tokens into the cache, which has room for it.

        :param x: (B', W, D)
        :param cache: (L, P, B, H, T, D_h) keys and values, or cells
        :param cross: (L, 2, B, H, S, D_h)
        :param lengths: (B') source lengths
        :returns: (B', W, D)
        """
        count, window, _ = x.shape
        source_mask = length_mask(lengths, cross.shape[4])
        for number, layer in enumerate(self.layers):
            x = layer.own_norm.after(x + layer.own(layer.own_norm.before(x), cache[number], seen, shapes))
            queries = layer.cross_query(layer.cross_norm.before(x)).view(count, window, self.heads, -1).transpose(1, 2)
            keys, values = cross[number][:, seen.rows]
            attended = attend(queries, keys, values, source_mask, shapes)
            x = layer.cross_norm.after(x + layer.cross_out(attended.transpose(1, 2).reshape(x.shape)))
            x = layer.ffn(x)
        return self.norm(x)


def append(data: Tensor, keys_values: Tensor, rows: Tensor, positions: Tensor) -> None:
    """Writes windows of keys and values into those of a layer (2, B, H, T, D_h).

    :param keys_values: (B', W, 2, H, D_h)
    :param rows: (B')
    :param positions: (B', W)
    """
    data.permute(1, 3, 0, 2, 4)[rows[:, None], positions] = keys_values
