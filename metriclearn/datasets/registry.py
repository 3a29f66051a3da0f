"""Where the files of the data sets lie, and checked downloads of those that are public."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SOURCES", "Source", "data_folder", "fetch", "read_arrays", "read_json", "read_table"]

RETRIES = 2


@dataclass(frozen=True)
class Source:
    """Where the files of one data set come from.

    Parameters
    ----------
    advice : str
        Where to get the files and how to lay them out, the end of a sentence.
    base_url : str
        Address that the paths of ``files`` continue.
    files : mapping of str to (str, str)
        For every file with a plain download: its path below ``base_url`` and its sha256.
    """

    advice: str
    base_url: str = ""
    files: Mapping[str, tuple[str, str]] = field(default_factory=dict)


_TCPD_SHA256 = {
    "bank": "e00567946a10dfae6f118dc22f2290dd7065cf40c093e4e61853201999537676",
    "brent_spot": "42d54b2793bd38bf22461422edabf5db83065306959c4fe3d9e0dc2658c09672",
    "businv": "6184899278eac04b79cce34db7a4d555ae6d68306e6061d6831bf84866246fad",
    "children_per_woman": "2400bb7ebe59f8a16ae47d6802a097ed0ea94be2fd42cdd33e01e9a82cb96367",
    "co2_canada": "7caa7401c17a0d7359033854a3b47146d5927f39365e2675c69a4765649876ef",
    "construction": "c1da31f779e2fb6d99b4b2a2260c1bf0aa0fe4cbf57da0ab84e777df5d411a53",
    "gdp_argentina": "f1d341fd4a94cdc5420cdd2e0b18c72f71dc656af72f57632d88bfb5b3270987",
    "gdp_croatia": "95f183f7a8470581d1d3a19f5ee3bdc3b2bed7c0021377b3fa91783f28adbb2d",
    "gdp_iran": "c3cd3409aeaed76242f90e43d1c152de9bdb6bdf3887c87ddffa8eedd3ae9369",
    "global_co2": "5dbca226c7c5d9079893f719eee5952e9e262a7c0623b212f2b7eb7e213d13b2",
    "homeruns": "ab91df278d1a1682a2449cb6c4d914b7fa0fe6c45ff9ccc54f3a42a0a3941508",
    "jfk_passengers": "53f5b2495ad7596cb5511e9f0470db185bcda0a798c68565150c7be1f95edb7b",
    "nile": "1d3bd0c3d8b4cbb5d1368aa1128d59631cfc71889f110def34ec42ba91ec9103",
    "ozone": "9f3981dab7bb4b288ee852dbb1f53ff24d388cb5e926c4542efd2ae8af2036a4",
    "quality_control_1": "faee7c4134fdea29cf5ab5b9a9884240622cf6f0c548a8605097aacc7ded2a62",
    "quality_control_3": "6bdaf41f2d48015b7c922318f36dffece6934f2353fab9e324ee5f70f321e989",
    "quality_control_4": "82a20f938daa891430e2970b852bd36f2708137f64c6f66a9922d5f65582e383",
    "quality_control_5": "da1d721d3e3a70b0843c10512f25222358f8c9563a7d96a72e54b7f17164097c",
    "run_log": "6d70ba6dde16e29609283fe8ebfaf3e03048f0e44493809e4f496bc1b89a6f65",
    "seatbelts": "aacf93cbd3b41bba6d7fe9855172a0a54b5d2a605ba0998b29e4e6823804a11f",
    "shanghai_license": "476c83d07f29815b08bde4a8e6bfdb60336f82b5314c9c5930e43c8646f04113",
    "unemployment_nl": "cc4621436e4ed21982eb3ed6cac07bdb41cc37e4f33845cf9bbcf6690c4ff6bb",
    "us_population": "7c440060003ada87981c252a2b462d2516d3e69c03a09dd85dcd0d08e20cdcf4",
    "usd_isk": "4946c5cfc5b8de43c3c06676a37cd6e86df2ee953777ac72534522be42ef11a2",
}

SOURCES: dict[str, Source] = {
    "hapt": Source(
        "take the raw data of UCI Machine Learning Repository 341 (Smartphone-Based Recognition "
        "of Human Activities and Postural Transitions) and store one int16 array (T, 6) per "
        "recording expEE_userUU (acceleration in g x 720, angular velocity in rad/s x "
        "180 / (0.0175 pi)) in sequences_int16.npz and the columns sequence, start, end, label, "
        "name (0-based, end excluded) in segments.csv"
    ),
    "weizmann_horses": Source(
        "take the Weizmann horse database (E. Borenstein, S. Ullman), and store photographs, "
        "resized to their masks, as images/NAME.jpg and masks of 0 and 1 as masks/NAME.png"
    ),
    "bsds500": Source(
        "take images and groundTruth of the Berkeley segmentation data set BSDS500, and store "
        "them as images/ID.jpg and, per annotator K, region numbers as segmentations/ID_K.png"
    ),
    "letter": Source(
        "take UCI Machine Learning Repository 59 (Letter Recognition) and store "
        "letter-recognition.data as letter.csv.gz, gzipped, with the columns letter, xbox, ybox, "
        "width, high, onpix, xbar, ybar, x2bar, y2bar, xybar, x2ybr, xy2br, xege, xegvy, yege, "
        "yegvx"
    ),
    "libras": Source(
        "take UCI Machine Learning Repository 181 (Libras Movement) and store movement_libras.data "
        "as movement_libras.csv.gz, gzipped, with the columns x1, y1, ..., x45, y45, label"
    ),
    "gesture_phase": Source(
        "take UCI Machine Learning Repository 302 (Gesture Phase Segmentation) and store the "
        "arrays KEY_raw (T, 18), KEY_time (T,) and KEY_va3 (T - 4, 32) of every video KEY in "
        "sequences.npz and the columns sequence, features, start, end, label (0-based, end "
        "excluded) in segments.csv"
    ),
    "beedance": Source(
        "take data/beedance of the GitHub repository OctoberChang/klcpd_code and store one array "
        "(T, 3) per bee (position x and y, heading, each scaled to [0, 1]) in sequences.npz and "
        "the columns sequence, change_point (0-based first frame of a new segment) in "
        "change_points.csv"
    ),
    "mocap6": Source(
        "take bnpy/datasets/mocap6 of the GitHub repository bnpy/bnpy and store one array (T, 12) "
        "per sequence SUBJECT_TRIAL and the names of the columns as channels in sequences.npz and "
        "the columns sequence, start, end, label (0-based, end excluded) in segments.csv"
    ),
    "neuroblastoma": Source(
        "take data/cancer of the GitHub repository lamtung16/OPART_Learning_Penalty_Interval and "
        "store the columns sequence_id (PROFILE.CHROMOSOME), logratio in profiles.csv.gz and "
        "sequence_id, start, end (1-based, both included), annotation (normal or 1breakpoint), "
        "fold in annotations.csv.gz"
    ),
    "tcpd": Source(
        "take datasets/NAME/NAME.json and annotations.json of the GitHub repository "
        "alan-turing-institute/TCPD and store them as datasets/NAME.json and annotations.json",
        "https://raw.githubusercontent.com/alan-turing-institute/TCPD/"
        "83b3039b5c67eaf21a720e3eac4ffdade3fb421c/",
        {
            "annotations.json": (
                "annotations.json",
                "532bedc29837086a024cf680213afaa832ecdf3d6b1763ae9ad89181fd85227d",
            )
        }
        | {
            f"datasets/{name}.json": (f"datasets/{name}/{name}.json", sha256)
            for name, sha256 in _TCPD_SHA256.items()
        },
    ),
}


def data_folder(name: str, root: str | os.PathLike[str] | None = None) -> Path:
    """The folder that directly holds the files of data set ``name``.

    It is ``root`` if given, else ``$METRICLEARN_DATA/name`` if that variable is set, else a folder
    in the cache of the current user. It need not exist.
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
    root: str | os.PathLike[str] | None = None,
    base_url: str | None = None,
) -> Path:
    """Path of a file of data set ``name``, downloaded first if it is missing and public.

    A download is checked against the registered sha256 and put in place in one step, so that an
    interrupted one leaves nothing behind; failures are tried again twice. A file that is already
    there is taken as it is.

    Parameters
    ----------
    name, file : str
        Data set and path of the file in its folder.
    root : path, optional
        See :func:`data_folder`.
    base_url : str, optional
        A mirror to download from, in place of the registered address.

    Raises
    ------
    FileNotFoundError
        If the file is missing and has no plain download; the sentence says where to get it.
    ConnectionError
        If the download fails.
    ValueError
        If what was downloaded does not have the registered sha256.
    """
    folder = data_folder(name, root)
    if (folder / file).is_file():
        return folder / file
    source = SOURCES.get(name)
    if source is None or file not in source.files:
        advice = f"{source.advice}; then" if source else "put it there, or"
        raise FileNotFoundError(
            f"Data set {name!r} needs the file {file!r}, which is not in {str(folder)!r} and has "
            f"no plain download: {advice} pass root=FOLDER or set METRICLEARN_DATA to the folder "
            f"that holds {name!r}."
        )
    path, sha256 = source.files[file]
    address = base_url if base_url is not None else source.base_url
    return _download(f"{address.rstrip('/')}/{path}", sha256, folder, file)


def _download(url: str, sha256: str, folder: Path, file: str) -> Path:
    import pooch
    import requests

    store = pooch.create(
        path=folder,
        base_url="",
        registry={file: f"sha256:{sha256}"},
        urls={file: url},
        retry_if_failed=RETRIES,
    )
    remedy = "check the connection, or put the file there yourself"
    try:
        return Path(store.fetch(file))
    except requests.exceptions.RequestException as error:
        raise ConnectionError(
            f"{file!r} could not be downloaded from {url} to {str(folder)!r} "
            f"({type(error).__name__}); {remedy}."
        ) from error
    except OSError as error:
        raise OSError(
            f"{file!r} could not be written to {str(folder)!r} ({error}); set METRICLEARN_DATA to "
            "a folder that can be written to."
        ) from error
    except ValueError as error:
        raise ValueError(
            f"{file!r} downloaded from {url} does not have the registered sha256 {sha256} and was "
            "thrown away; try again later, or put the right file there yourself."
        ) from error


def read_arrays(path: str | os.PathLike[str]) -> dict[str, NDArray]:
    """All arrays of an npz file; a ValueError naming the file if it is damaged."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return {key: stored[key] for key in stored.files}
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise _damaged(path, "an npz file of plain arrays", error) from error


def read_json(path: str | os.PathLike[str]) -> Any:
    """Content of a JSON file; a ValueError naming the file if it is damaged."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise _damaged(path, "JSON", error) from error


def read_table(path: str | os.PathLike[str], columns: Mapping[str, type]) -> pd.DataFrame:
    """Columns of a CSV file by name and type; a ValueError naming the file if it is damaged.

    A name that ends in ``.gz`` is a gzipped file. A last line without its line end counts as
    damage: the file was cut there.
    """
    import pandas as pd

    content = Path(path).read_bytes()
    try:
        if os.fspath(path).endswith(".gz"):
            content = gzip.decompress(content)
        if not content.endswith(b"\n"):
            raise ValueError("its last line is cut")
        table = pd.read_csv(
            io.BytesIO(content),
            index_col=False,
            dtype=columns,
            keep_default_na=False,
            na_values=[""],
        )
        if not set(columns) <= set(table.columns) or table[list(columns)].isna().any(axis=None):
            raise ValueError("a column or a value is missing")
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _damaged(path, f"a CSV file with columns {', '.join(columns)}", error) from error
    return table[list(columns)]


def _damaged(path: str | os.PathLike[str], needed: str, error: Exception) -> ValueError:
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return ValueError(
        f"{os.fspath(path)!r} should be {needed}, but is truncated or damaged "
        f"({reason.rstrip('.')}); delete it and get it again."
    )
