"""Sentences that may say some tokens alone: on PyTorch a mask, on the C++ kernels a projection of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import Array

import torch
from torch import Tensor

from specmt.engine.boundary import check_range, checked
from specmt.engine.cache import round_up
from specmt.engine.library import Kernels
from specmt.engine.pool import thread_count
from specmt.engine.structures import LANES, TOGETHER, Linear, Network, Shortlist


def restrict(logits: Tensor, shortlists: Mapping[int, Tensor]) -> Tensor:
    """Returns logits (B, W, V), −inf where a row's sentence must not go; those of rows without a list as they are.

    :param shortlists: by row, ids in ascending order
    """
    if not shortlists:
        return logits
    restricted = torch.full_like(logits, -torch.inf)
    for row in range(len(logits)):
        ids = shortlists.get(row, slice(None))
        restricted[row, :, ids] = logits[row, :, ids]
    return restricted


class ShortProjection:
    """The listed outputs of a projection, packed once for a sentence."""

    def __init__(self, ids: Tensor, project: Linear, dtype: torch.dtype) -> None:
        """
        :param ids: in ascending order
        :param project: the whole projection
        """
        outputs, inputs, together = round_up(len(ids), LANES), project.inputs, TOGETHER[dtype]
        weight = torch.empty(outputs // LANES, inputs // together, LANES, dtype=torch.int32)
        floats = torch.empty(2, outputs)
        offset = torch.empty(outputs, dtype=torch.int32)
        self._kept = (weight, floats, offset, ids.int())
        short = Linear(weight=weight.data_ptr(), outputs=outputs, inputs=inputs)
        if project.bias:
            short.bias = floats[0].data_ptr()
        if project.scale:
            short.scale, short.offset = floats[1].data_ptr(), offset.data_ptr()
        self.struct = Shortlist(project=short, ids=self._kept[-1].data_ptr(), count=len(ids))


def shorten(
    library: Kernels, network: Network, shortlists: Sequence[Tensor], dtype: torch.dtype
) -> list[ShortProjection]:
    """Returns what the kernels compute of a network's projection for each of several sentences.

    :param shortlists: ids in ascending order
    """
    for ids in shortlists:
        check_range("shortlist", checked("shortlist", ids, torch.int64, None), 0, network.vocab)
    projections = [ShortProjection(ids, network.project, dtype) for ids in shortlists]
    array = (Shortlist * len(projections))(*(each.struct for each in projections))
    library.specmt_shorten(network, array, len(array), thread_count())
    return projections


def array_of(shortlists: Mapping[int, ShortProjection], rows: int) -> Array[Shortlist] | None:
    """Returns what the first rows may say, for the kernels; ``None`` if that is everything."""
    if not shortlists:
        return None
    return (Shortlist * rows)(*(shortlists[row].struct if row in shortlists else Shortlist() for row in range(rows)))
