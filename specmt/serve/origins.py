"""Which web pages may ask: browsers ask for whatever page they show, from this machine and behind its firewall too."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from ipaddress import ip_address
from typing import Final, final
from urllib.parse import urlsplit

from fastapi import Request
from starlette.types import Scope

from specmt.errors import UsageError
from specmt.serve.errors import RefusedError

_ELSEWHERE: Final = (b"cross-site", b"same-site")


@final
class Origins:
    """The pages that may ask where there are no keys: the server's own, those that are listed, and no page at all."""

    def __init__(self, *, allowed: Collection[str] = (), public_url: str = "", host: str = "") -> None:
        """
        :param allowed: origins whose pages may have texts translated and their language detected; `*` for all
        :param public_url: where clients reach the server
        :param host: the name that it listens by
        :raises UsageError: one of these is no URL.
        """
        self.allowed: Final = sorted({each.rstrip("/") for each in allowed})
        self._base = public_url.rstrip("/")
        for name, url in [("public-url", self._base), *(("allow-origin", each) for each in self.allowed)]:
            if url not in ("", "*", "null") and not _host_of(url):
                raise UsageError(f"`{name}` must be as https://mt.example.org, but is {url!r} instead.")
        self._own = "/".join(self._base.split("/")[:3])
        self._names = {"localhost", host, _host_of(self._base)} - {""}

    def check(self, scope: Scope) -> None:
        """
        :raises RefusedError: a page asks that may not.
        """
        headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"").decode("latin-1")
        if not origin and scope["path"] == "/translate" and headers.get(b"sec-fetch-site") in _ELSEWHERE:
            origin = "null"  # an image or a link, of which browsers do not say whose it is
        if not origin or self._is_own(origin, headers.get(b"host", b"").decode("latin-1")):
            return
        is_private = scope["method"] == "DELETE" or scope["path"].startswith(("/v2/glossar", "/v3/"))
        if is_private or not {"*", origin} & set(self.allowed):
            raise RefusedError(403, f"Pages of {origin[:100]} may not ask this server.")

    def base(self, request: Request) -> str:
        """Returns what URLs of the server begin with: the Host header counts only if it is one of its names."""
        host, (address, port) = request.headers.get("host", ""), request.scope["server"]
        if not self._is_name(host):
            host = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        return self._base or f"{request.url.scheme}://{host}{request.scope.get('root_path', '')}"

    def _is_own(self, origin: str, host: str) -> bool:
        return origin == self._own or (origin.partition("://")[2] == host and self._is_name(host))

    def _is_name(self, host: str) -> bool:
        """Whether a host is this server's name: other names lead here, too, for whoever owns them (DNS rebinding)."""
        name = _host_of(f"http://{host}")
        with suppress(ValueError):
            return name in self._names or bool(ip_address(name))
        return False


def _host_of(url: str) -> str:
    """Returns the host of a URL of HTTP; nothing of what is none."""
    with suppress(ValueError):
        found = urlsplit(url)
        return (found.hostname or "") if found.scheme in ("http", "https") else ""
    return ""
