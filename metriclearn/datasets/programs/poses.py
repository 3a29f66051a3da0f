"""Tables of DeepLabCut: the places of parts of a body in every picture of a video."""

from __future__ import annotations

import csv
import os
import re
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metriclearn.datasets.text_tables import check_distinct, form_of_lines
from metriclearn.running.atomic import reading
from metriclearn.running.extras import optional

if TYPE_CHECKING:
    import pandas as pd


def is_poses(path: Path) -> bool:
    """Tell tables of DeepLabCut by their first cell."""
    with path.open("rb") as file:
        return re.match(b"(\xef\xbb\xbf)?scorer[,;\t|]", file.readline(50)) is not None


def read_poses(path: Path, likelihood: float = 0.0) -> pd.DataFrame:
    """Read a table of DeepLabCut, which begins with three lines: scorer, bodyparts and coords.

    With several animals, a line of individuals comes second. The first column, the number of the
    picture, is not read.

    Parameters
    ----------
    path : Path
    likelihood : float
        Where the likelihood of a part is below, or missing, its coordinates are missing.

    Returns
    -------
    pandas.DataFrame
        Columns ``part x`` and ``part y``, after the name of the animal if there are several.

    Raises
    ------
    ValueError
        If the file is damaged.
    """
    pd = optional("pandas", "tables")
    with reading(path, "a table of DeepLabCut", csv.Error, IndexError):
        head: list[list[str]] = []
        separator = form_of_lines(path).separator
        with path.open(encoding="utf-8-sig", newline="") as stream:
            for row in (lines := csv.reader(stream, delimiter=separator)):
                head.append([cell.strip() for cell in row])
                if row[0] == "coords" or len(head) == 4:
                    break
            decimal = "," if any("," in cell for cell in next(lines, [])) else "."
        if [row[0] for row in head if row[0] != "individuals"] != ["scorer", "bodyparts", "coords"]:
            raise ValueError("it needs the lines scorer, bodyparts and coords")
        names = [" ".join(cells) for cells in zip(*(row[1:] for row in head[1:]), strict=True)]
        check_distinct(repr(os.fspath(path)), names)
        dialect: Any = {"sep": separator, "decimal": decimal, "encoding": "utf-8"}
        rows = pd.read_csv(path, skiprows=len(head), header=None, dtype="float64", **dialect)
        if rows.shape[1] != len(names) + 1:
            raise ValueError(f"it has {len(names) + 1} names for {rows.shape[1]} columns")
        table = rows.iloc[:, 1:].set_axis(names, axis=1)
    for name in [one for one in names if one.endswith(" likelihood")]:
        is_sure, part = table.pop(name) >= likelihood, name.rpartition(" ")[0]
        if likelihood > 0:
            table.loc[~is_sure, [one for one in table if one.rpartition(" ")[0] == part]] = nan
    return table
