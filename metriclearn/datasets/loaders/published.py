"""Data of published comparisons: texts divided into topics, and targets for learned penalties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metriclearn.datasets.registry import PathLike, fetch, read
from metriclearn.datasets.sequences import Items, LabeledSequences, of_parts
from metriclearn.running.atomic import reading
from metriclearn.running.extras import optional
from metriclearn.running.parameters import Real, Whole, needs
from metriclearn.running.values import check_each, real_array

_FEWEST = 3  # least number of segments of a document
_BLOCK = 3  # sentences
_COPY_NUMBERS = ("systematic", "detailed")  # sets of penalties
_FILE = "documents_choi_disjoint.csv.xz"
_SENTENCES = {"document": str, "sentence": int, "segment": int, "text": str}
_ENDS = {"sequenceID": str, "min.log.lambda": float, "max.log.lambda": float}


@needs
def texts(
    name: str,
    root: PathLike | None,
    *,
    fitted: Sequence[str] | None = None,
    n_components: Annotated[int, Whole(1)] = 40,
    held_out: Annotated[float, Real(0, 0.9)] = 0.0,
    fitted_root: PathLike | None = None,
) -> LabeledSequences:
    """Read documents that are joined from excerpts, with a row for every sentence.

    Features are the TF–IDF of words after a truncated SVD, summed over three sentences and scaled
    to length 1. The last feature is the cosine similarity between the words of the three sentences
    before a row and the words of the three sentences from the row on. Cost O(sentences · words in a
    sentence · components).

    Raises
    ------
    ValueError
        If a name is unknown, or there are not enough words.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.preprocessing import normalize

    documents, groups = _documents(read(name, _FILE, root, _SENTENCES), held_out)
    source = documents
    if fitted_root is not None:
        source, _ = _documents(read(name, _FILE, fitted_root, _SENTENCES), held_out)
    known = list(source if fitted is None else fitted)
    if not known or (unknown := sorted(set(known) - set(source))):
        raise ValueError(
            f"load_dataset({name!r}) needs fitted among the names of its {len(source)} "
            f"documents, got {unknown[:3] if known else 'none'}; take them from the names of a "
            "data set, or name their folder, fitted_root=FOLDER."
        )
    words = TfidfVectorizer(stop_words="english", sublinear_tf=True)
    weights = words.fit_transform([text for one in known for text in source[one][0]])
    if weights.shape[1] <= n_components:
        raise ValueError(
            f"load_dataset({name!r}) needs more words than components, got "
            f"{weights.shape[1]} words for {n_components}; fit to more documents, or reduce "
            "n_components."
        )
    svd = TruncatedSVD(n_components, random_state=0).fit(weights)
    sentences = words.transform([text for one, _ in documents.values() for text in one])
    vectors = normalize(svd.transform(sentences))
    parts, stop = {}, 0
    for one, (words_of, labels) in documents.items():
        start, stop = stop, stop + len(words_of)
        rows, t = sentences[start:stop], np.arange(len(words_of))
        after = ((t >= t[:, None]) & (t < t[:, None] + _BLOCK)).astype(float)
        before = ((t < t[:, None]) & (t >= t[:, None] - _BLOCK)).astype(float)
        around = (np.abs(t - t[:, None]) <= _BLOCK // 2).astype(float)
        left, right = (normalize(block @ rows) for block in (before, after))
        likeness = np.sum(left * right, axis=1)
        likeness[0] = 1.0
        topics = normalize(around @ vectors[start:stop])
        parts[one] = np.column_stack([topics, likeness]), labels
    names = [f"topic_{i:02d}" for i in range(n_components)]
    return of_parts(name, parts, [*names, "likeness_before_after"], [groups[one] for one in parts])


def _documents(
    table: Any, held_out: float
) -> tuple[dict[str, tuple[list[str], NDArray]], dict[str, str]]:
    """Return the sentences and segment numbers of every document, and the groups of documents."""
    table = table.sort_values("sentence", kind="stable")
    tables = {str(name): rows for name, rows in table.groupby("document", sort=False)}
    firsts = {name: rows.groupby("segment")["text"].first() for name, rows in tables.items()}
    excerpts = sorted({text for some in firsts.values() for text in some})
    n_held_out = round(held_out * len(excerpts))
    drawn = np.random.default_rng(0).permutation(len(excerpts))[:n_held_out]
    apart = {excerpts[i] for i in drawn}
    used, cores = set(apart), dict[str, set[str]]()
    documents: dict[str, tuple[list[str], NDArray]] = {}
    groups: dict[str, str] = {}

    def add(name: str, source: str, kept: Any) -> None:
        rows = tables[source][tables[source]["segment"].isin(kept)]
        documents[name] = rows["text"].tolist(), np.searchsorted(kept, rows["segment"])

    for name, first in firsts.items():
        new = first.index[[text not in used for text in first]]
        if len(new) >= _FEWEST:
            used |= set(first[new])
            groups[name] = name
            add(name, name, new)
    if not documents:
        raise ValueError(
            f"load_dataset('texts') needs documents with {_FEWEST} or more segments whose first "
            f"sentences no earlier document has, got none among {len(tables)}; add documents."
        )
    later = {
        f"held out {name}": (name, first[[text in apart for text in first]])
        for name, first in firsts.items()
    }
    later = {name: pair for name, pair in later.items() if len(pair[1]) >= _FEWEST}
    for name in sorted(later, key=lambda name: len(later[name][1])):
        add(name, later[name][0], later[name][1].index)
        mine = set(later[name][1])
        if not any(mine & core for core in cores.values()):
            cores[name] = mine
    for name in later:
        mine = set(later[name][1])
        groups[name] = max(cores, key=lambda core: len(mine & cores[core]))
    return documents, groups


@dataclass(frozen=True, eq=False, repr=False)
class PenaltyTargets(Items):
    """Features of N sequences, and how many of the experts' labels each penalty gets wrong.

    Parameters
    ----------
    names : list of N str
    features : list of N arrays (P,)
        Features of every sequence, with the published values. A feature is −∞ or NaN if it is a
        logarithm without a finite value.
    intervals : list of N arrays (2,)
        The interval of log penalties (natural logarithms) with the fewest errors.
    starts, errors : lists of N arrays
        The number of errors is a piecewise constant function of the log penalty. ``starts`` holds
        the log penalty at which each piece begins, and ``errors`` the number of errors on it.
    n_labels : list of N int
        Number of labels of every sequence.
    feature_names : list of P str

    Raises
    ------
    ValueError
        If the lists are empty or of different lengths.

    See Also
    --------
    load_dataset : loads such a data set.

    Examples
    --------
    >>> from metriclearn.datasets import load_dataset
    >>> data, folds = load_dataset("penalties", set="systematic")  # doctest: +SKIP
    """

    names: list[str]
    features: list[NDArray[np.float64]]
    intervals: list[NDArray[np.float64]]
    starts: list[NDArray[np.float64]]
    errors: list[NDArray[np.int64]]
    n_labels: list[int]
    feature_names: list[str]
    LISTS: ClassVar = ("names", "features", "intervals", "starts", "errors", "n_labels")

    def errors_at(self, log_penalties: ArrayLike) -> NDArray[np.int64]:
        """Count the errors of every sequence, (N,), at its log penalty (natural logarithm).

        Raises
        ------
        ValueError
            If there is not one finite number for every sequence.
        """
        logs = real_array("PenaltyTargets", "log_penalties", np.reshape(log_penalties, (1, -1)))[0]
        check_each("PenaltyTargets", "log penalty", len(logs), "sequences", len(self))
        places = [np.searchsorted(s, z, "right") - 1 for s, z in zip(self.starts, logs)]
        return np.array([errors[max(i, 0)] for errors, i in zip(self.errors, places)])


def penalties(
    name: str, root: PathLike | None, *, set: str = "systematic", folds: str | None = None
) -> tuple[PenaltyTargets, NDArray[np.int64]]:
    """Read targets for learning a penalty, and the official test fold of every sequence."""
    pd = optional("pandas", "tables")
    chosen = folds or ("sequenceID" if set in _COPY_NUMBERS else "equal_labels")
    columns = {"set": str, "cv": str, "sequenceID": str, "fold": int}
    table = read(name, "folds.csv.xz", root, columns)
    mine = table[(table["set"] == set) & (table["cv"] == chosen)].set_index("sequenceID")["fold"]
    if mine.empty:
        there = sorted({" ".join(pair) for pair in zip(table["set"], table["cv"])})
        raise ValueError(
            f"load_dataset({name!r}) needs a set and its folds among {there}, got {set!r} and "
            f"{chosen!r}."
        )
    outputs = read(name, f"{set}_outputs.csv.xz", root, _ENDS).set_index("sequenceID")
    counts = {**_ENDS, "labels": int, "errors": int}
    pieces = read(name, f"{set}_evaluation.csv.xz", root, counts)
    of_sequence = dict(tuple(pieces.sort_values("min.log.lambda").groupby("sequenceID")))
    path = fetch(name, f"{set}_inputs.csv.xz", root)
    with reading(path, "a CSV file with the column sequenceID and features"):
        rows = pd.read_csv(path, index_col="sequenceID").astype(float)
    names = list(mine.index)
    known = {*of_sequence} & {*rows.index} & {*outputs.index}
    if missing := [one for one in names if one not in known]:
        raise ValueError(
            f"load_dataset({name!r}) needs inputs, outputs and errors of every sequence of "
            f"{set!r}, got none of {missing[0]!r}; get the files again."
        )
    data = PenaltyTargets(
        names,
        list(rows.loc[names].to_numpy(dtype=float)),
        list(outputs.loc[names].to_numpy(dtype=float)),
        [of_sequence[one]["min.log.lambda"].to_numpy() for one in names],
        [of_sequence[one]["errors"].to_numpy() for one in names],
        [int(of_sequence[one]["labels"].iloc[0]) for one in names],
        list(map(str, rows.columns)),
    )
    return data, mine.to_numpy()
