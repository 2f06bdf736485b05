"""The fairseq2 models that everything is compared with, and that is trained."""

from __future__ import annotations

import ctypes
from pathlib import Path


def _prepare_fairseq2() -> None:
    """Loads the libsndfile that the soundfile wheel carries, without which ``import fairseq2`` fails.

    Does nothing where the wheel carries none: a system library serves there.
    """
    try:
        import _soundfile_data
    except ImportError:
        return
    for folder in _soundfile_data.__path__:
        for library in sorted(Path(folder).glob("libsndfile*.so")):
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


# Here, so that every module below, and specmt.training, may import fairseq2 like any other package.
_prepare_fairseq2()
