"""The guard of web applications: which requests they get, and how results and errors are answered.

Starlette is imported where it is used.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from asyncio import iscoroutinefunction
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from metriclearn.running import optional, sentence

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; "
    "style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
# Errors that contents of a request cause, such as JSON of many levels or integers of many digits.
_REFUSED = (
    *(ArithmeticError, AttributeError, ImportError, LookupError),
    *(OSError, RecursionError, TypeError, ValueError),
)


def bound(who: str, host: str, port: int) -> socket.socket:
    """Bind a socket to a port, or to any free one if it is 0.

    Raises
    ------
    OSError
        If the port is in use, or if there is no such port.
    """
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except (OSError, OverflowError) as error:
        made.close()
        reason = getattr(error, "strerror", None) or "there is no such port"
        raise OSError(
            f"{who} needs a free port, got {port} ({reason}); choose another one, or leave --port "
            "out."
        ) from error
    return made


class Refusal(Exception):
    """An error that is sent as an answer: an HTTP status below 500 and a one-sentence message."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Guard(ABC):
    """ASGI middleware that checks every request, and reads its body, before the application does.

    Other web pages in the same browser can send requests to any port of this computer. A subclass
    tells them apart.

    Parameters
    ----------
    app : ASGI application
    largest : int
        Most bytes of a body.
    """

    def __init__(self, app: Any, largest: int) -> None:
        self.app, self.largest = app, largest

    @abstractmethod
    def checked(self, scope: Mapping[str, Any], headers: Mapping[str, list[str]]) -> Any:
        """Return the scope that the application gets, or a response. Raise a Refusal otherwise."""

    def refused(self, scope: Mapping[str, Any], refusal: Refusal) -> Any:
        """Turn an error into a response."""
        return answer({"error": str(refusal)}, refusal.status)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass valid requests on. Answer other requests with a status 4xx and a sentence."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            else:
                await send({"type": "websocket.close"})  # refused with 403
            return
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        try:
            found = self.checked(scope, headers)
            body = await self._body(headers, receive)
        except Refusal as refusal:
            found = self.refused(scope, refusal)
        if not isinstance(found, Mapping):
            await found(scope, receive, send)
            return
        given = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def replay() -> Any:
            return next(given, None) or await receive()

        await self.app(found, replay, send)

    async def _body(
        self, headers: Mapping[str, list[str]], receive: Callable[[], Awaitable[Any]]
    ) -> bytes:
        """Read the body. A body that is too large is refused before it is read, if possible."""
        said = headers.get("content-length", ["0"])[-1]
        body, is_long = b"", not said.isdigit() or len(said) > 20 or int(said) > self.largest
        while not is_long:
            message = await receive()
            body += message.get("body", b"")
            is_long = len(body) > self.largest  # chunked requests have no content-length
            if not message.get("more_body"):
                return body
        raise Refusal(413, f"A request may have at most {self.largest} bytes.")


def answer(content: Any, status: int = 200) -> Any:
    """Make a JSON response."""
    return optional("starlette.responses", "label").JSONResponse(content, status, HEADERS)


async def answered(function: Callable[..., Any], *given: Any) -> Any:
    """Call a function of an application, in a thread unless it is a coroutine, and answer.

    A dictionary is sent as JSON, and a pair is a media type and bytes. Errors that the contents of
    a request cause are sent as a status 4xx and a sentence.
    """
    responses = optional("starlette.responses", "label")
    in_thread = optional("starlette.concurrency", "label").run_in_threadpool
    try:
        is_async = iscoroutinefunction(function)
        result = await (function(*given) if is_async else in_thread(function, *given))
    except Refusal as refusal:
        return answer({"error": str(refusal)}, refusal.status)
    except _REFUSED as error:
        return answer({"error": sentence(error)}, 422)
    if isinstance(result, tuple):
        return responses.Response(result[1], media_type=result[0], headers=HEADERS)
    return answer(result) if isinstance(result, dict) else result
