"""The projection to the tokens that a sentence may say, if those are not all."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np

from specmt.engine.arrays import Ids, empty
from specmt.engine.cache import round_up
from specmt.engine.kernels.boundary import check_range, checked
from specmt.engine.kernels.library import Kernels
from specmt.engine.kernels.structures import LANES, TOGETHER, Linear, Network, Shortlist
from specmt.engine.threads import thread_count


class ShortProjection:
    """The listed outputs of a projection, packed once for a sentence."""

    def __init__(self, ids: Ids, project: Linear, format: str) -> None:
        """
        :param ids: in ascending order
        :param project: the whole projection
        """
        outputs, inputs, together = round_up(len(ids), LANES), project.inputs, TOGETHER[format]
        weight = empty((outputs // LANES, inputs // together, LANES), np.int32)
        floats = empty((2, outputs), np.float32)
        offset, narrow = empty((outputs,), np.int32), ids.astype(np.int32)
        self._kept = weight, floats, offset, narrow
        short = Linear(weight=weight.ctypes.data, outputs=outputs, inputs=inputs)
        if project.bias:
            short.bias = floats[0].ctypes.data
        if project.scale:
            short.scale, short.offset = floats[1].ctypes.data, offset.ctypes.data
        self.struct = Shortlist(project=short, ids=narrow.ctypes.data, count=len(ids))


def shorten(library: Kernels, network: Network, shortlists: Sequence[Ids], format: str) -> list[ShortProjection]:
    """Returns what the kernels compute of a network's projection for each of several sentences.

    :param shortlists: ids in ascending order
    """
    for ids in shortlists:
        check_range("shortlist", checked("shortlist", ids, np.int64, None), 0, network.vocab)
    projections = [ShortProjection(ids, network.project, format) for ids in shortlists]
    array = (Shortlist * len(projections))(*(each.struct for each in projections))
    library.specmt_shorten(network, array, len(array), thread_count())
    return projections


def array_of(shortlists: Mapping[int, ShortProjection], rows: int) -> ctypes.Array[Shortlist] | None:
    """Returns what the first rows may say, for the kernels; ``None`` if that is everything."""
    if not shortlists:
        return None
    return (Shortlist * rows)(*(shortlists[row].struct if row in shortlists else Shortlist() for row in range(rows)))
