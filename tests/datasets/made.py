"""Small files of every data set, as they are laid out in its folder."""

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RNG = np.random.default_rng(0)
GESTURE = [
    "c1,raw,0,6,rest", "c1,raw,6,10,stroke", "c1,va3,0,2,rest", "c1,va3,2,6,stroke",
    "d3,raw,0,8,hold", "d3,va3,0,3,hold", "d3,va3,3,4,rest",
]  # fmt: skip
PHONE = [
    "exp07_user09,3,12,5,STANDING", "exp07_user09,12,18,7,STAND_TO_SIT",
    "exp07_user09,26,40,7,STAND_TO_SIT", "exp02_user31,0,23,1,WALKING",
]  # fmt: skip
MOTION = ["13_30,0,6,Jog", "13_29,0,3,Jog", "13_29,3,5,Squat", "13_29,5,8,Jog"]
REGIONS = ["7.20,7,20,1,3,0,normal,1", "7.20,7,20,4,6,1,1breakpoint,2", "7.2,7,2,2,4,0,normal,2"]
POINTS = [f"7.2,{v}" for v in (0.5, -0.25, 0, 1)] + [f"7.20,{v}" for v in range(6)]
NAMED = ["b_1,0,12,x,7,major", "b_1,12,40,y,9,minor", "a_2,0,30,x,7,major"]
STORED = {  # ending of the file of arrays, type and columns
    "gazecom": ("_int16", np.int16, 3),
    "birdsong": ("_int8", np.int8, 32),
    "billboard": ("_uint8", np.uint8, 24),
    "piano_keys": ("", np.float32, 14),
}
ARRAYS: dict[str, dict[str, NDArray]] = {
    "beedance": {"b": RNG.uniform(size=(9, 3)), "a": RNG.uniform(size=(7, 3))},
    "gesture_phase": {
        f"{video}_{kind}": RNG.normal(size=(frames, width)).astype(np.float32)
        for video, length in (("d3", 8), ("c1", 10))
        for kind, frames, width in (("raw", length, 18), ("va3", length - 4, 32))
    },
    "hapt": {  # to be cut into windows of 4
        name: RNG.integers(-700, 700, (size, 6)).astype(np.int16)
        for name, size in (("exp07_user09", 40), ("exp02_user31", 23))
    },
    "mocap6": {
        "channels": np.array(["root.ty", "rfoot.rx"]),
        "13_30": RNG.normal(size=(6, 2)),
        "13_29": RNG.normal(size=(8, 2)),
    },
    "tssb": {"a": np.arange(6.0), "b": np.arange(4.0)},
    **{
        name: {
            one: RNG.integers(1, 100, (size, width)).astype(kind)
            for one, size in (("b_1", 40), ("a_2", 30))
        }
        for name, (_, kind, width) in STORED.items()
    },
}
# file, header and rows of the table of every data set
TABLES: dict[str, tuple[str, str, list[str]]] = {
    "beedance": ("change_points.csv", "sequence,change_point", ["a,2", "a,6", "b,4"]),
    "gesture_phase": ("segments.csv", "sequence,features,start,end,label", GESTURE),
    "hapt": ("segments.csv", "sequence,start,end,label,name", PHONE),
    "mocap6": ("segments.csv", "sequence,start,end,label", MOTION),
    "tssb": ("change_points.csv", "series,window_size,change_points", ["b,2,", "a,2,2 5"]),
    "neuroblastoma": (
        "annotations.csv.gz",
        "sequence_id,profile_id,chromosome,start,end,changes,annotation,fold",
        REGIONS,
    ),
    **dict.fromkeys(STORED, ("segments.csv", "sequence,start,end,label,tonic,mode", NAMED)),
}
FIRST = ["apples grow on trees", "ships sail the sea", "planets orbit the sun"]
TEXTS = [*FIRST, "music sounds at night", "bread needs flour", "rivers carry water"]


def write(folder: Path, name: str, rows: list[str] | None = None, arrays: Any = None) -> Path:
    """The made files of a data set, or other rows and arrays in their place."""
    if name == "tcpd":
        return series(folder)
    if name == "texts":
        return texts(folder, {"a": FIRST})
    table, header, usual = TABLES[name]
    files = {table: [header, *(usual if rows is None else rows)]}
    if name == "neuroblastoma":
        files["profiles.csv.gz"] = ["sequence_id,logratio", *POINTS]
    else:
        ending = {"hapt": "_int16"}.get(name) or STORED.get(name, ("",))[0]
        npz = "series.npz" if name == "tssb" else f"sequences{ending}.npz"
        np.savez(folder / npz, **(ARRAYS[name] if arrays is None else arrays))
    for file, lines in files.items():
        content = "".join(f"{line}\n" for line in lines).encode()
        (folder / file).write_bytes(
            gzip.compress(content, mtime=0) if file.endswith(".gz") else content
        )
    return folder


def texts(folder: Path, documents: dict[str, list[str]]) -> Path:
    """Documents of segments of two sentences each."""
    rows = ["document,sentence,segment,text"]
    for name, excerpts in documents.items():
        for k, text in enumerate(excerpts):
            rows += [f"{name},{2 * k},{k},{text}", f"{name},{2 * k + 1},{k},more of {text}"]
    file = folder / "documents_choi_disjoint.csv.xz"
    file.write_bytes(lzma.compress("\n".join([*rows, ""]).encode()))
    return folder


def content(*columns: list[float | None]) -> str:
    """A file of a series of the Turing Change Point Dataset with five samples."""
    parts = [{"label": f"V{i}", "type": "float", "raw": raw} for i, raw in enumerate(columns)]
    header = {"name": "toy", "longname": "Toy series", "n_obs": 5, "n_dim": len(columns)}
    return json.dumps(header | {"time": {"index": list(range(5))}, "series": parts})


def series(folder: Path) -> Path:
    """Two series, and annotations of three."""
    (folder / "datasets").mkdir()
    (folder / "datasets" / "toy.json").write_text(content([1, 2, 3, 4, 5]))
    gaps = content([1.5, None, 2.5, 4, None], [0, 0, 1, 1, 1])
    (folder / "datasets" / "gaps.json").write_text(gaps)
    annotations = {"toy": {"6": [3, 1], "7": []}, "gaps": {"9": [2]}, "absent": {"6": []}}
    (folder / "annotations.json").write_text(json.dumps(annotations))
    return folder
