"""What a client is told instead of an answer."""

from __future__ import annotations

import logging
import traceback
from typing import Final

logger: Final = logging.getLogger(__name__)


class RefusedError(Exception):
    """A request gets no answer, but a status and a reason; each contract words it in its own body."""

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        """
        :param retry_after: seconds after which it may be tried again
        """
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after


def refusal_of(error: Exception) -> RefusedError:
    """Returns what a client is told of a failure: nothing of the inside, which is logged."""
    if isinstance(error, RefusedError):
        return error
    where = traceback.extract_tb(error.__traceback__)[-1]
    # What the error says may have parts of a text in it.
    logger.error("%s at %s:%d", type(error).__name__, where.filename, where.lineno or 0)
    return RefusedError(500, "Internal error")
