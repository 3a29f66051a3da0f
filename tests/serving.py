"""A web application that listens at a free port, in a thread of this process."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def serving(application: Callable[[int], Any]) -> Iterator[tuple[int, Any]]:
    """Port and server of what is made for that port; it is stopped at the end."""
    uvicorn = pytest.importorskip("uvicorn", reason="needs the extra label")
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
