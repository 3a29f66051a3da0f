"""The token and the port of the label page.

The token and the port are saved in the folder of the recordings. A page that is still open in a
browser therefore remains valid when the server is started again.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

FILE = ".metriclearn.address"


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
