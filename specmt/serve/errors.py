"""What a client is told instead of an answer."""

from __future__ import annotations


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
