"""Who may ask the labelling page: this page only, with its token, in small bodies."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from metriclearn.running.extras import optional

_LARGEST_BODY = 4_000_000  # bytes
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; "
    "style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Refusal(Exception):
    """A status below 500, and a sentence for it."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass
class Guard:
    """ASGI middleware that lets only this page in: its host, its origin, its token, small bodies.

    Another page in the same browser may send requests to any port of this computer. It cannot know
    the token. The host and origin headers that browsers add exclude foreign names that point to
    127.0.0.1 (DNS rebinding).
    """

    app: Any
    port: int
    token: str

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on, or answer with 4xx and a sentence."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            else:
                await send({"type": "websocket.close"})  # refused with 403
            return
        try:
            self._check(scope)
            body = await self._body(receive)
        except Refusal as refusal:
            await answer({"error": str(refusal)}, refusal.status)(scope, receive, send)
            return
        scope = {**scope, "path": scope["path"][len(self.token) + 1 :]}
        given = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def replay() -> Any:
            return next(given, None) or await receive()

        await self.app(scope, replay, send)

    def _check(self, scope: Any) -> None:
        headers: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value.decode("latin-1"))
        hosts = {f"127.0.0.1:{self.port}", f"localhost:{self.port}"}
        if len(headers.get(b"host", [])) != 1 or headers[b"host"][0] not in hosts:
            raise Refusal(403, "This server answers to its own address only.")
        if not set(headers.get(b"origin", [])) <= {f"http://{host}" for host in hosts}:
            raise Refusal(403, "Other pages may not use this server.")
        first = scope["path"].split("/")[1] if scope["path"].startswith("/") else ""
        if not secrets.compare_digest(first.encode(), self.token.encode()):
            raise Refusal(403, "The address needs the token that metriclearn label has printed.")
        length = headers.get(b"content-length", ["0"])[0]
        if not length.isdigit() or int(length) > _LARGEST_BODY:
            raise Refusal(413, f"A request may have {_LARGEST_BODY} bytes.")

    async def _body(self, receive: Any) -> bytes:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > _LARGEST_BODY:  # in pieces, of a length nobody has told
                raise Refusal(413, f"A request may have {_LARGEST_BODY} bytes.")
            if not message.get("more_body"):
                return body


def answer(content: Any, status: int = 200) -> Any:
    """JSON."""
    responses = optional("starlette.responses", "label")
    return responses.JSONResponse(content, status, HEADERS)
