"""Files that are there whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(path: Path, *, suffix: str = ".tmp") -> Iterator[Path]:
    """Yields a file to write, which takes the name ``path`` when the block ends, and vanishes if it fails.

    Who may read it says the umask, even where what writes it is stricter, as safetensors is.

    :param suffix: what the name ends in until then; one of the process's own where several write the same file
    """
    temporary = path.with_name(path.name + suffix)
    temporary.unlink(missing_ok=True)
    temporary.touch()
    mode = temporary.stat().st_mode
    try:
        yield temporary
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_whole(path: Path, text: str, *, suffix: str = ".tmp") -> None:
    """Writes a text file under a temporary name and renames it."""
    with whole(path, suffix=suffix) as temporary:
        temporary.write_text(text, encoding="utf-8")
