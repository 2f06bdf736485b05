"""The application: both contracts, the page, and what operators look at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from mimetypes import guess_type
from pathlib import Path
from typing import Any, Final

import fastapi_offline
from fastapi import FastAPI, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

import specmt
from specmt.serve import deepl, deepl_documents, deepl_glossaries, libretranslate, look, worker
from specmt.serve.context import service_of
from specmt.serve.errors import RefusedError
from specmt.serve.gate import OVERHEAD, Gate, body_of
from specmt.serve.glossaries import MOST_BYTES
from specmt.serve.orders import Orders
from specmt.serve.origins import Origins
from specmt.serve.service import Service
from specmt.serve.threads import Threads
from specmt.serve.uploads import Uploads

_PAGE: Final = Path(specmt.__file__).parent / "assets" / "page"
_SWAGGER: Final = Path(fastapi_offline.__file__).parent / "static"
_FILES: Final = {
    **{name: _PAGE / name for name in ("index.html", "page.js", "page.css", "docs.html", "docs.js")},
    **{name: _SWAGGER / name for name in ("swagger-ui-bundle.js", "swagger-ui.css")},
}
"""What the pages are made of; they need nothing from other servers."""

_POLICY: Final = "default-src 'none'; script-src 'self'; style-src 'self'{}; connect-src 'self'; img-src 'self' data:"

MOST_THREADS: Final = 64
_BYTES_OF_CHARACTER: Final = 12
"""In JSON, where every character may be written as two escapes."""


def create_app(
    service: Service,
    *,
    log: Callable[[str], object] | None = None,
    origins: Origins | None = None,
    metrics: bool = True,
    page: bool = True,
) -> Gate:
    """Returns the application of a service, which it starts and stops.

    :param log: writes a line for each request
    :param origins: which web pages may ask where there are no keys; by default the server's own
    :param metrics: whether there are figures for Prometheus
    :param page: whether there is a page to type into, and one that describes the routes
    """
    origins, has_keys = origins or Origins(), service.keys is not None

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # Texts with markup wait in a thread each.
        asyncio.get_running_loop().set_default_executor(Threads(MOST_THREADS))
        try:
            service.start()
            await asyncio.to_thread(worker.warm)
        except BaseException as error:  # which the server would end for without a word
            service.fail(error)
            raise
        expiry = asyncio.create_task(uploads.expire_for_ever())
        try:
            yield
        finally:
            expiry.cancel()
            with suppress(asyncio.CancelledError):
                await expiry
            await orders.stop()
            # Not in a thread of those that there are: texts may have them all.
            await asyncio.get_running_loop().run_in_executor(Threads(1), service.stop)

    uploads = Uploads()
    orders = Orders(uploads)
    app = FastAPI(
        title="specmt",
        version=specmt.__version__,
        summary="Machine translation that decodes by draft and verify.",
        lifespan=lifespan,
        responses={"default": {"description": "A refusal: an object with `error` or, of DeepL's contract, `message`."}},
        docs_url=None,
        redoc_url=None,
    )
    app.state.service, app.state.uploads, app.state.orders, app.state.origins = service, uploads, orders, origins
    if has_keys or origins.allowed:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=["*"] if has_keys else origins.allowed,
            allow_methods=["GET", "POST", *(["PUT", "PATCH", "DELETE"] if has_keys else [])],
            allow_headers=["*"],
            expose_headers=["ETag"],
        )
    for routes in (libretranslate, deepl, deepl_documents, deepl_glossaries, look):
        app.include_router(routes.router)
    app.add_api_route("/readyz", _ready, tags=["Operation"], summary="Whether the models are loaded")
    if metrics:
        app.add_api_route("/metrics", _metrics, tags=["Operation"], summary="Figures for Prometheus")
    for path, route in (("/", _page), ("/docs", _docs), ("/page/{name}", _page)) if page else ():
        app.add_api_route(path, route, include_in_schema=False)
    app.add_exception_handler(RefusedError, _refuse)
    app.add_exception_handler(HTTPException, _refuse)
    app.add_exception_handler(Exception, _refuse)  # the gate writes it down
    limits = service.limits
    texts = max(_BYTES_OF_CHARACTER * (limits.characters or limits.upload), 4 * MOST_BYTES) + OVERHEAD
    most = texts, max(limits.upload + OVERHEAD, texts)

    def count(status: int) -> None:
        service.metrics.responses.labels(str(status)).inc()

    check = (lambda scope: None) if has_keys else origins.check
    return Gate(app, service.room, most_bytes=most, log=log, count=count, check=check)


async def _ready(request: Request) -> Response:
    if not service_of(request).is_ready:
        return JSONResponse({"status": "loading"}, 503, {"Retry-After": "2"})
    return JSONResponse({"status": "ready"})


async def _metrics(request: Request) -> Response:
    return Response(service_of(request).metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _page(name: str = "index.html") -> Response:
    if name not in _FILES:
        raise RefusedError(404, "Not found")
    more = " 'unsafe-inline'" if name == "docs.html" else ""  # Swagger UI sets styles of elements
    headers = {"Content-Security-Policy": _POLICY.format(more), "Cache-Control": "no-cache"}
    return Response(_content(name), headers=headers, media_type=guess_type(name)[0])


@cache
def _content(name: str) -> bytes:
    return _FILES[name].read_bytes()


async def _docs() -> Response:
    return await _page("docs.html")


async def _refuse(request: Request, error: Any) -> Response:
    if isinstance(error, HTTPException):
        error = RefusedError(error.status_code, str(error.detail))
    elif not isinstance(error, RefusedError):
        error = RefusedError(500, "Internal error")
    status, body, headers = body_of(request.url.path, error)
    return JSONResponse(body, status, headers)
