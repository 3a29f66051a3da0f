"""Optional packages, and names of earlier versions: errors that state the remedy."""

from __future__ import annotations

import inspect
import json
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from urllib.request import url2pathname


def optional(name: str, extra: str) -> Any:
    """Import a module of an optional package.

    Raises
    ------
    ModuleNotFoundError
        If the package is missing. The message gives the command that installs the extra.
    """
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ModuleNotFoundError(
            f"This needs {package}, which is not installed: {install(extra)}", name=package
        ) from error


def install(extra: str) -> str:
    """Return the command that installs an extra, such as "deep".

    The command depends on how metriclearn was installed (PEP 610). If metriclearn is used from a
    checkout without being installed, the command installs the checkout.
    """
    wanted, text = f"metriclearn[{extra}]", None
    checkout = Path(__file__).parents[2]
    try:
        text = distribution("metriclearn").read_text("direct_url.json")
    except PackageNotFoundError:
        if (checkout / "pyproject.toml").is_file():
            return f"pip install -e '{checkout}[{extra}]'"
    origin = json.loads(text) if text else {}
    url = origin.get("url", "")
    if "dir_info" in origin:
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return f"pip install {editable}'{url2pathname(urlparse(url).path)}[{extra}]'"
    if "vcs_info" in origin:
        version = origin["vcs_info"]
        return f"pip install '{wanted} @ {version['vcs']}+{url}@{version['commit_id']}'"
    return f"pip install '{wanted} @ {url}'" if url else f"pip install '{wanted}'"


def gone(told: str) -> Exception:
    """Return the error that ``__getattr__`` of a module raises for a name that is gone.

    It is an AttributeError or, in ``from … import …``, an ImportError, because Python would replace
    the text of an AttributeError there.
    """
    frame = inspect.currentframe()
    for _ in range(2):  # this function, and __getattr__
        frame = frame and frame.f_back
    imported = frame is not None and frame.f_code.co_name == "_handle_fromlist"
    return (ImportError if imported else AttributeError)(told)
