"""The token and the port of the label page, and the guard that asks for them.

The token and the port are saved in the folder of the recordings. A page that is still open in a
browser therefore remains valid when the server is started again.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from metriclearn.apps.web import HEADERS, Guard, Refusal
from metriclearn.running import optional

FILE = ".metriclearn.address"
_LARGEST_BODY = 4_000_000  # bytes
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


class Address(NamedTuple):
    """The secret token and the port in the address of the page. Port 0 means any free port."""

    token: str
    port: int

    @classmethod
    def of(cls, folder: Path) -> Address:
        """Read the address of the last server for a folder, or make a new token.

        A saved address is ignored if its file belongs to another user, or if other users may read
        the file.
        """
        try:
            descriptor = os.open(folder / FILE, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
            with open(descriptor, encoding="utf8") as stream:
                found = os.fstat(descriptor)
                kept = json.loads(stream.read(1000))
            token, port = kept["token"], kept["port"]
            is_private = os.name != "posix" or (
                found.st_uid == os.getuid() and not found.st_mode & 0o077
            )
            is_token = re.fullmatch(r"[0-9A-Za-z_-]{32}", token)
            if is_private and is_token and type(port) is int and 0 <= port < 1 << 16:
                return cls(token, port)
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return cls(secrets.token_urlsafe(24), 0)

    def keep(self, folder: Path) -> None:
        """Save the address in a file that only its owner can read.

        In a read-only folder the address is not saved.
        """
        with suppress(OSError):
            (folder / FILE).unlink(missing_ok=True)
            descriptor = os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="utf8") as stream:
                json.dump(self._asdict(), stream)


class TokenGuard(Guard):
    """Lets only the label page use its server: requests must have the right host and the token.

    The check of the host and origin headers also excludes other host names that point to 127.0.0.1
    (DNS rebinding).
    """

    def __init__(self, app: Any, port: int, token: str) -> None:
        super().__init__(app, _LARGEST_BODY)
        self.port, self.token = port, token
        self.code = ""  # leads to the page instead of the token, once

    def checked(self, scope: Mapping[str, Any], headers: Mapping[str, list[str]]) -> Any:
        """Check host, origin and token. The application gets the path behind the token."""
        hosts = [f"127.0.0.1:{self.port}", f"localhost:{self.port}"]
        if headers.get("host") not in [[host] for host in hosts]:
            raise Refusal(403, "This server answers only requests to the address it printed.")
        if not set(headers.get("origin", [])) <= {f"http://{host}" for host in hosts}:
            raise Refusal(403, "Other pages may not use this server.")
        path = scope["path"]
        first = path.split("/")[1] if path.startswith("/") else ""
        valid = [self.token] + ([self.code] if self.code else [])
        if not any(secrets.compare_digest(first.encode(), one.encode()) for one in valid):
            raise Refusal(403, _WRONG_TOKEN)
        if path.startswith(f"/{self.token}/"):
            return {**scope, "path": path[len(self.token) + 1 :]}
        if path != f"/{self.token}":  # without its last character, or a code
            self.code = ""
        redirect = optional("starlette.responses", "label").RedirectResponse
        return redirect(f"/{self.token}/", headers=HEADERS)

    def refused(self, scope: Mapping[str, Any], refusal: Refusal) -> Any:
        """Turn an error into a page if the browser accepts one, otherwise into JSON."""
        accepted = dict(scope["headers"]).get(b"accept", b"")
        if scope["method"] != "GET" or b"text/html" not in accepted:
            return super().refused(scope, refusal)
        html = optional("starlette.responses", "label").HTMLResponse
        return html(_PAGE.format(escape(str(refusal))), refusal.status, HEADERS)
