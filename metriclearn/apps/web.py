"""Let only the label page use its server: a request must be small and have the right token."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from html import escape
from typing import Any

from metriclearn.running.extras import optional
from metriclearn.running.requests import TooLong, read_body

_LARGEST_BODY = 4_000_000  # bytes
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; "
    "style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


_WRONG_TOKEN = (
    "This address is not valid, or no longer. Open the address that metriclearn label printed; if "
    "the command is not running, start it again."
)
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Not available</title></head>
<body style="font: 1.1rem/1.5 system-ui, sans-serif; max-width: 36rem; margin: 4rem auto">
<h1 style="font-size: 1.4rem">This page is not available</h1>
<p>{}</p>
<p>Annotations that were not saved yet are kept in this browser, and are sent once the page of their
folder is open again.</p></body></html>
"""


class Refusal(Exception):
    """An error that is sent to the page: an HTTP status below 500 and a one-sentence message."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass
class Guard:
    """ASGI middleware that checks host, origin, token and size of every request.

    Other web pages in the same browser can send requests to any port of this computer, but they do
    not have the token. The check of the host and origin headers also excludes other host names that
    point to 127.0.0.1 (DNS rebinding).
    """

    app: Any
    port: int
    token: str
    code: str = ""  # leads to the page instead of the token, once

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass valid requests on. Answer other requests with a status 4xx and a sentence."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            else:
                await send({"type": "websocket.close"})  # refused with 403
            return
        try:
            self._check(scope)
            body = await read_body(scope, receive, _LARGEST_BODY)
        except (Refusal, TooLong) as error:
            refusal = error if isinstance(error, Refusal) else Refusal(413, str(error))
            await _refused(scope, refusal)(scope, receive, send)
            return
        if not scope["path"].startswith(f"/{self.token}/"):  # without its last character, or a code
            if scope["path"] != f"/{self.token}":
                self.code = ""
            redirect = optional("starlette.responses", "label").RedirectResponse
            await redirect(f"/{self.token}/", headers=HEADERS)(scope, receive, send)
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
            raise Refusal(403, "This server answers only requests to the address it printed.")
        if not set(headers.get(b"origin", [])) <= {f"http://{host}" for host in hosts}:
            raise Refusal(403, "Other pages may not use this server.")
        first = scope["path"].split("/")[1] if scope["path"].startswith("/") else ""
        valid = [self.token] + ([self.code] if self.code else [])
        if not any(secrets.compare_digest(first.encode(), one.encode()) for one in valid):
            raise Refusal(403, _WRONG_TOKEN)


def _refused(scope: Any, refusal: Refusal) -> Any:
    """Turn an error into a response: a page if the browser accepts one, otherwise JSON."""
    accepted = dict(scope["headers"]).get(b"accept", b"")
    if scope["method"] != "GET" or b"text/html" not in accepted:
        return answer({"error": str(refusal)}, refusal.status)
    html = optional("starlette.responses", "label").HTMLResponse
    return html(_PAGE.format(escape(str(refusal))), refusal.status, HEADERS)


def answer(content: Any, status: int = 200) -> Any:
    """Make a JSON response."""
    responses = optional("starlette.responses", "label")
    return responses.JSONResponse(content, status, HEADERS)
