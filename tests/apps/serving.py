"""A web application that listens at a free port, in a thread of this process."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


def needs_label() -> Any:
    """The module uvicorn; a test without what the extra label installs is skipped."""
    pytest.importorskip("starlette", reason="needs the extra label")
    return pytest.importorskip("uvicorn", reason="needs the extra label")


@contextmanager
def serving(application: Callable[[int], Any]) -> Iterator[tuple[int, Any]]:
    """Port and server of what is made for that port; it is stopped at the end."""
    uvicorn = needs_label()
    config = uvicorn.Config(None, port=0, log_level="critical")
    with config.bind_socket() as listening:
        port = listening.getsockname()[1]
        config.app = application(port)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield port, config.app
        server.should_exit = True
        thread.join()
