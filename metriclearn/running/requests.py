"""Read requests of web servers, up to a size."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any


class TooLong(ValueError):
    """Raised if a request is larger than allowed."""


async def read_body(
    scope: Mapping[str, Any], receive: Callable[[], Awaitable[Mapping[str, Any]]], most: int
) -> bytes:
    """Read the body of an ASGI request of at most ``most`` bytes.

    Raises
    ------
    TooLong
        If the body is larger, before it is read if the request has the header Content-Length.
    """
    said = dict(scope["headers"]).get(b"content-length", b"0")
    body, is_long = b"", not said.isdigit() or len(said) > 20 or int(said) > most
    while not is_long:
        message = await receive()
        body += message.get("body", b"")
        is_long = len(body) > most  # chunked requests have no content-length
        if not message.get("more_body"):
            break
    if is_long:
        raise TooLong(f"A request may have at most {most} bytes.")
    return body
