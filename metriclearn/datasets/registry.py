"""Folders of the data sets, checked downloads of public files, and archives of publishers."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from tarfile import TarError
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from metriclearn.running.atomic import read_npz, reading
from metriclearn.running.extras import optional

if TYPE_CHECKING:
    import pandas as pd

RETRIES = 2
_OPENERS: Mapping[str, Any] = {".gz": gzip, ".xz": lzma}
PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Source:
    """Where the files of a data set come from, and how they are read.

    Parameters
    ----------
    advice : str
        How to get and arrange the files. Error messages end with this text.
    license : str
        The license, as far as it is known.
    reader : str
        Module and function in ``loaders`` that read the files.
    options : sequence of str
        Names of the options that users may pass to :func:`load_dataset` for this data set.
    settings : mapping
        Arguments of the reader, such as the names of files and columns.
    base_url : str
        Address of the folder that holds the ``files``.
    files : mapping of str to mapping
        For every file that can be downloaded, its ``path`` below ``base_url`` and its ``sha256``.
    """

    advice: str
    license: str = ""
    reader: str = ""
    options: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    base_url: str = ""
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


_TABLE = files(__package__).joinpath("sources.toml").read_text("utf-8")
SOURCES = {name: Source(**entry) for name, entry in tomllib.loads(_TABLE).items()}


def data_folder(name: str, root: PathLike | None = None) -> Path:
    """Return the folder that holds the files of data set ``name``.

    The folder is ``root`` if given, else ``$METRICLEARN_DATA/name`` if that variable is set, else a
    folder in the cache of the current user. The folder may not exist yet.

    Parameters
    ----------
    name : str
    root : path, optional
        The folder itself, not its parent.

    Returns
    -------
    Path

    Raises
    ------
    TypeError
        If ``root`` is not a path, or ``name`` is not a string.

    See Also
    --------
    fetch : finds or downloads a file in this folder.

    Examples
    --------
    >>> from metriclearn.datasets import data_folder
    >>> data_folder("hapt", root="mine").name
    'mine'
    """
    if root is not None:
        return Path(root).expanduser()
    if parent := os.environ.get("METRICLEARN_DATA"):
        return Path(parent).expanduser() / name
    import pooch

    return Path(pooch.os_cache("metriclearn")) / name


def fetch(
    name: str,
    file: str,
    root: PathLike | None = None,
    base_url: str | None = None,
) -> Path:
    """Find a file of data set ``name``, or download it if it is public, and return its path.

    A download is checked against the registered sha256 and tried up to three times. An interrupted
    download leaves no file. A file that already exists is not checked.

    Parameters
    ----------
    name, file : str
        Name of the data set, and path of the file in its folder.
    root : path, optional
        See :func:`data_folder`.
    base_url : str, optional
        A mirror to download from, instead of the registered address.

    Returns
    -------
    Path

    Raises
    ------
    FileNotFoundError
        If the file is missing and cannot be downloaded; the message explains how to get it.
    ConnectionError
        If the download fails.
    ValueError
        If the downloaded file does not have the registered sha256.

    See Also
    --------
    data_folder : the folder that holds the file.

    Examples
    --------
    >>> from metriclearn.datasets import fetch
    >>> file = fetch("tcpd", "well_log.json")  # doctest: +SKIP
    """
    folder = data_folder(name, root)
    source = SOURCES.get(name)
    if (folder / file).is_file() or source is None or file not in source.files:
        return existing(name, file, root)
    import pooch
    import requests

    address = source.base_url if base_url is None else base_url
    sha256 = source.files[file]["sha256"]
    url = f"{address.rstrip('/')}/{source.files[file]['path']}"
    options = {"base_url": "", "registry": {file: sha256}, "urls": {file: url}}
    try:
        return Path(pooch.create(folder, **options, retry_if_failed=RETRIES).fetch(file))
    except requests.exceptions.RequestException as error:
        raise ConnectionError(
            f"{file!r} could not be downloaded from {url} ({type(error).__name__}); check the "
            f"connection, or put the file in {str(folder)!r} yourself."
        ) from error
    except OSError as error:
        raise OSError(
            f"{file!r} could not be written to {str(folder)!r} ({error}); set METRICLEARN_DATA to "
            "a folder that can be written to."
        ) from error
    except ValueError as error:
        raise ValueError(
            f"{file!r} was downloaded from {url} and discarded, because its sha256 is not "
            f"{sha256}; try again later, or put the right file in {str(folder)!r} yourself."
        ) from error


def existing(name: str, part: str, root: PathLike | None = None) -> Path:
    """Return the path of an existing file or folder of data set ``name``.

    Raises
    ------
    FileNotFoundError
        If the path does not exist. The message explains how to get the file.
    """
    folder = data_folder(name, root)
    if (folder / part).exists():
        return folder / part
    advice = SOURCES[name].advice if name in SOURCES else "put it there"
    raise FileNotFoundError(
        f"Data set {name!r} needs {part!r} in {str(folder)!r}: {advice}; or pass root=FOLDER, or "
        f"set METRICLEARN_DATA to the folder that holds {name!r}."
    )


def read(
    name: str,
    file: str,
    root: PathLike | None = None,
    columns: Mapping[str, type | None] | None = None,
    base_url: str | None = None,
) -> Any:
    """Read a file of data set ``name``, which :func:`fetch` downloads first if necessary.

    Parameters
    ----------
    columns : mapping, optional
        Names and types of the columns if the file is a table, see :func:`read_table`. Without
        ``columns``, a file ending in ``.json`` is read as JSON, and any other as npz arrays.

    Raises
    ------
    ValueError
        If the file is damaged. For more errors see :func:`fetch`.
    """
    path = fetch(name, file, root, base_url)
    if columns is not None:
        return read_table(path, columns)
    if path.suffix != ".json":
        return read_arrays(path)
    with reading(path, "JSON"):
        return json.loads(path.read_text(encoding="utf-8"))


def files_by_name(what: str, files: Iterable[Path]) -> dict[str, Path]:
    """Map the name of each file, without its ending, to the file.

    Raises
    ------
    ValueError
        If two files differ only by their ending.
    """
    named: dict[str, Path] = {}
    for file in files:
        other = named.setdefault(file.stem, file)
        if other is not file:
            raise ValueError(
                f"{os.fspath(file.parent)!r} needs one file per {what}, got {other.name!r} and "
                f"{file.name!r}; remove or rename one of them."
            )
    return named


def read_arrays(path: Path) -> dict[str, NDArray]:
    """Read all arrays of an npz file. Raises ValueError if the file is damaged."""
    needed = "an npz file of plain arrays"
    with reading(path, needed, TypeError, RuntimeError):
        return read_npz(path)


def read_table(path: Path, columns: Mapping[str, type | None]) -> pd.DataFrame:
    """Read the given columns of a CSV file (also .gz and .xz) with the given types.

    A column of type None has texts, which may be empty. Raises ValueError if the file is damaged.
    The last line must end with a line break, since a file without it may have been truncated.
    """
    pd = optional("pandas", "tables")
    with reading(path, f"a CSV file with columns {', '.join(columns)}"):
        content = path.read_bytes()
        if path.suffix in _OPENERS:
            content = _OPENERS[path.suffix].decompress(content)
        if not content.endswith(b"\n"):
            raise ValueError("its last line is cut")
        kinds = {name: kind or str for name, kind in columns.items()}
        blank = {name: [""] for name, kind in columns.items() if kind is not None}
        options: dict[str, Any] = {"keep_default_na": False, "na_values": blank, "dtype": kinds}
        table = pd.read_csv(io.BytesIO(content), index_col=False, **options)[list(columns)]
        if table.isna().any(axis=None):
            raise ValueError("a value is missing")
    return table


def lay_out(
    name: str,
    root: PathLike | None,
    parts: Sequence[str],
    mark: str,
    convert: Callable[[Path, Path], None],
) -> None:
    """Make the files of a data set from its archive, if they are missing.

    The folder of the data set holds the archive as downloaded (``.zip``, ``.tar.gz`` or ``.tgz``)
    or unpacked. Without an archive, nothing happens. The files appear only when all of them are
    complete.

    Parameters
    ----------
    name : str
        Name of the data set.
    root : path, optional
        See :func:`~metriclearn.datasets.data_folder`.
    parts : sequence of str
        Names of the files and folders to make.
    mark : str
        Pattern that matches a file or folder of the archive. ``source`` is the folder that contains
        this file or folder.
    convert : callable
        ``convert(source, target)`` makes all ``parts`` in the empty folder ``target`` from the
        folder ``source`` of the unpacked archive.

    Raises
    ------
    ValueError
        If the archive is damaged, or nothing in it matches ``mark``.
    """
    folder = data_folder(name, root)
    if not folder.is_dir() or all((folder / part).exists() for part in parts):
        return
    archives = sorted([*folder.glob("*.zip"), *folder.glob("*.tar.gz"), *folder.glob("*.tgz")])
    if not archives and not any(folder.rglob(mark)):
        return
    with TemporaryDirectory(prefix=".unpacked", dir=folder) as place:
        unpacked, made = Path(place, "archive"), Path(place, "made")
        made.mkdir()
        for i, archive in enumerate(archives):
            _unpack(archive, unpacked / str(i))
        for archive in sorted(unpacked.rglob("*.zip")):  # archives inside the archive
            _unpack(archive, archive.with_suffix(""))
        found = sorted(path for path in folder.rglob(mark) if made not in path.parents)
        if not found:
            raise ValueError(
                f"The archive of {name!r} needs {mark!r}, which is not in "
                f"{', '.join(map(str, archives))}; download it again."
            )
        with reading(found[0].parent, f"the archive of {name!r}"):
            convert(found[0].parent, made)
        for part in parts:
            target = folder / part
            if target.is_dir():
                shutil.rmtree(target)
            (made / part).replace(target)


def _unpack(archive: Path, folder: Path) -> None:
    options: dict[str, Any] = {} if archive.suffix == ".zip" else {"filter": "data"}
    with reading(archive, "an archive", TarError, RuntimeError):  # RuntimeError: it has a password
        shutil.unpack_archive(archive, folder, **options)
