"""Convert the archives of publishers, once, to the files that loaders read."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from tarfile import TarError
from tempfile import TemporaryDirectory
from typing import Any

from metriclearn.datasets.registry import PathLike, data_folder
from metriclearn.running.atomic import reading


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
