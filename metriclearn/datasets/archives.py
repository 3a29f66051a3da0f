"""Data sets from the archives that their publishers give, laid out once in the usual folder."""

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
    """Make files of a data set from its archive, if they are missing and it lies in the folder.

    The archive is a ``.zip`` or ``.tar.gz`` as it was downloaded, or unpacked. A run that is cut
    short leaves nothing that would be taken for the files. Without an archive nothing happens.

    Parameters
    ----------
    name : str
        The data set.
    root : path, optional
        See :func:`~metriclearn.datasets.data_folder`.
    parts : sequence of str
        Files and folders that are made.
    mark : str
        Pattern of a path that only the archive has.
    convert : callable
        Makes the parts in its second argument, an empty folder, from the first one, the folder in
        the archive that holds the mark.

    Raises
    ------
    ValueError
        If the archive is damaged, or holds something else; the sentence names it.
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
        for archive in sorted(unpacked.rglob("*.zip")):  # an archive in an archive
            _unpack(archive, archive.with_suffix(""))
        found = sorted(path for path in folder.rglob(mark) if made not in path.parents)
        if not found:
            raise ValueError(
                f"{', '.join(repr(str(archive)) for archive in archives)} should hold {mark!r}, "
                f"as the archive of {name!r} does; download it again."
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
    with reading(archive, "an archive", TarError, RuntimeError):  # the last for a password
        shutil.unpack_archive(archive, folder, **options)
