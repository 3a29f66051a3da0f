"""K-means under learned metrics: section 6.2 of the paper, on six tables.

Protocol A, the paper's: learn on all of a table and cluster it again, with several K-means seeds.
Protocol B: learn on a stratified half and cluster the other half, several times. Protocol C: learn
on half of the classes, as two data sets of different classes, and cluster the other classes.

Every method fits ``components_`` to the features that are not the same in 99 % of the training
samples; then K-means clusters the transformed test data, K given. What a method has to choose is
chosen in the training part only: in A by the loss on it, which is what A measures (with other
K-means seeds); in B on stratified splits of the training half, a third held out; in C on splits
that hold out the classes of one of the training sets. The candidate of least mean ‖M−N‖² over these
splits replaces the first of the grid if it is better by more than one standard error of their
difference, corrected for splits that share samples (Nadeau & Bengio 2003), and is fitted to all of
the training part.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hydra.utils import instantiate
from joblib import Parallel, delayed
from numpy.typing import NDArray
from omegaconf import DictConfig, OmegaConf
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid, StratifiedShuffleSplit
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from experiments.clustering_tables import Result, as_rows, markdown_tables, summary_rows
from experiments.report import Artifacts, write_report
from metriclearn.datasets import LabeledTable
from metriclearn.indices import adjusted_rand_score
from metriclearn.plots import plot_embeddings
from metriclearn.problem.forms import center
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition

__all__ = ["Case", "ClusteringMethod", "cases_of", "evaluate", "run"]

_logger = logging.getLogger(__name__)
_SELECTION_SEED = 1001  # of K-means; never that of a result
_RARE = 0.01  # share of samples up to which another value than the usual one tells nothing

Tables = list[LabeledTable]


@dataclass(frozen=True)
class Case:
    """One training part with its inner splits, one test table, and the K-means seeds for it."""

    protocol: str
    table: str
    repetition: int
    train: Tables
    test: LabeledTable
    inner: list[tuple[Tables, Tables]]
    seeds: Sequence[int]


@dataclass(frozen=True)
class ClusteringMethod:
    """A name, an estimator of ``components_`` and the candidates for its parameters."""

    name: str
    estimator: BaseEstimator
    candidates: list[Mapping[str, Any]]


def run(config: DictConfig, folder: Path, command: str) -> Path:
    """Compare all methods in all protocols; write results, tables, figure and report to ``folder``.

    Returns
    -------
    path of report.html
    """
    begun = time.perf_counter()
    methods = read_methods(config)
    cases = [
        case
        for protocol, tables in config.protocols.items()
        for name, count in (tables or {}).items()
        if count
        for case in cases_of(protocol, _load(config, name), count, config)
    ]
    if not cases:
        raise ValueError("The clustering experiment needs at least one table in config.protocols.")
    jobs = [(method, case) for case in cases for method in methods]
    parallel = Parallel(config.n_jobs, return_as="generator")
    starts = (config.n_init, config.inner_init)
    calls = (delayed(evaluate)(method, case, *starts) for method, case in jobs)
    results = []
    for (_, case), result in tqdm(
        zip(jobs, parallel(calls)), "clustering", len(jobs), disable=None
    ):
        _logger.info("%s %d %s", case.table, case.repetition, result)
        results.append(result)
    document = {
        "experiment": config.name,
        "rows": summary_rows(results) + as_rows(results),
        "seconds": time.perf_counter() - begun,
        "config": OmegaConf.to_container(config, resolve=True),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "clustering.md").write_text(markdown_tables(results), encoding="utf-8")
    artifacts = _artifacts(results, cases, config)
    page = write_report(folder, document, artifacts, command)
    _draw(results, cases, config, folder)
    return page


def read_methods(config: DictConfig) -> list[ClusteringMethod]:
    """The methods of a configuration, their grids spelled out."""
    return [
        ClusteringMethod(
            entry.name,
            instantiate(entry.estimator),
            list(ParameterGrid(instantiate(entry.grid, _convert_="all"))),
        )
        for entry in config.clustering_methods.values()
        if entry is not None
    ]


def cases_of(protocol: str, table: LabeledTable, count: int, config: DictConfig) -> list[Case]:
    """The cases of one table: one in A, with ``count`` seeds, or ``count`` in B and C.

    Raises
    ------
    ValueError
        If there is no such protocol.
    """
    makers = {"A": _same, "B": _halves, "C": _classes}
    if protocol not in makers:
        raise ValueError(f"The clustering experiment needs protocols A, B or C, got {protocol!r}.")
    return makers[protocol](table, count, config)


def _same(table: LabeledTable, count: int, config: DictConfig) -> list[Case]:
    some = _thinned(table, config.inner_samples, config.seed)
    inner = [([some], [some])]
    return [
        Case("A", table.name, 0, [table], table, inner, range(config.seed, config.seed + count))
    ]


def _halves(table: LabeledTable, count: int, config: DictConfig) -> list[Case]:
    splits = StratifiedShuffleSplit(count, test_size=0.5, random_state=config.seed)
    cases = []
    for i, (train, test) in enumerate(splits.split(table.X, table.y)):
        part, rest = table.select(train), table.select(test)
        inner = _inner_splits(part, config, i)
        cases.append(Case("B", table.name, i, [part], rest, inner, [config.seed + i]))
    return cases


def _inner_splits(part: LabeledTable, config: DictConfig, i: int) -> list[tuple[Tables, Tables]]:
    splits = StratifiedShuffleSplit(
        config.inner_splits[part.name], test_size=1 / 3, random_state=config.seed + 7919 * (i + 1)
    )
    pairs = []
    for own, other in splits.split(part.X, part.y):
        both = [_thinned(part.select(rows), config.inner_samples, i) for rows in (own, other)]
        pairs.append(([both[0]], [both[1]]))
    return pairs


def _classes(table: LabeledTable, count: int, config: DictConfig) -> list[Case]:
    cases = []
    for i in range(count):
        order = np.random.RandomState(config.seed + i).permutation(table.classes)
        n_train = len(order) // 2
        parts = [table.of_classes(half) for half in np.array_split(order[:n_train], 2)]
        thin = [_thinned(part, config.inner_samples, i) for part in parts]
        inner = [([thin[0]], [thin[1]]), ([thin[1]], [thin[0]])]
        test = table.of_classes(order[n_train:])
        cases.append(Case("C", table.name, i, parts, test, inner, [config.seed + i]))
    return cases


def _thinned(table: LabeledTable, most: int, seed: int) -> LabeledTable:
    """At most ``most`` samples, of every class by the same share."""
    if len(table) <= most:
        return table
    split = StratifiedShuffleSplit(1, train_size=most, random_state=seed)
    return table.select(next(split.split(table.X, table.y))[0])


def evaluate(method: ClusteringMethod, case: Case, n_init: int, inner_init: int) -> Result:
    """Choose on the training part, fit to it, then cluster the test table once per seed.

    K-means starts ``n_init`` times for a result and ``inner_init`` times to choose.
    """
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        parameters, words = _choose(method, case, inner_init)
        begun = time.process_time()
        model = _fit(method, parameters, case.train)
        seconds = time.process_time() - begun
        scores = [_scores(model, case.test, n_init, seed) for seed in case.seeds]
    losses, rand = zip(*scores)
    where = (case.protocol, case.table, case.repetition)
    return Result(method.name, *where, list(losses), list(rand), seconds, words, model)


def _choose(method: ClusteringMethod, case: Case, n_init: int) -> tuple[Mapping[str, Any], str]:
    """The best candidate on the inner splits, where it clearly beats the first, and words.

    Clearly: by more than one standard error of the paired differences of their losses, with the
    factor 1/J + n_test/n_train for J splits that share samples (Nadeau & Bengio 2003). The least
    mean of a few dozen noisy ones is often luck, and the first candidate is a sound default.
    """
    if len(method.candidates) == 1:
        return method.candidates[0], ""
    losses = np.array(
        [
            [_inner_loss(method, parameters, *pair, n_init) for pair in case.inner]
            for parameters in method.candidates
        ]
    )
    means = losses.mean(axis=1)
    chosen, n_splits = int(np.argmin(means)), losses.shape[1]
    gains = losses[0] - losses[chosen]
    overlap = np.mean([_n_samples(test) / _n_samples(train) for train, test in case.inner])
    error = gains.std(ddof=1) * np.sqrt(1 / n_splits + overlap) if n_splits > 1 else 0.0
    if gains.mean() <= error:
        chosen = 0
    candidate = method.candidates[chosen]
    words = ", ".join(f"{name} = {_word(value)}" for name, value in sorted(candidate.items()))
    return candidate, f"{words} (loss {means[chosen]:.3g} on the inner splits)"


def _n_samples(tables: Tables) -> int:
    return sum(map(len, tables))


def _word(value: Any) -> str:
    if isinstance(value, BaseEstimator):
        return type(value).__name__
    return f"{value:g}" if isinstance(value, float) else str(value)


def _inner_loss(
    method: ClusteringMethod,
    parameters: Mapping[str, Any],
    train: Tables,
    held_out: Tables,
    n_init: int,
) -> float:
    model = _fit(method, parameters, train)
    scores = [_scores(model, table, n_init, _SELECTION_SEED)[0] for table in held_out]
    return float(np.mean(scores))


def _fit(method: ClusteringMethod, parameters: Mapping[str, Any], train: Tables) -> Any:
    """Fit to the features that vary within some training table; the others get no weight.

    So do those with one value in more than 99 of 100 samples: whatever a method makes of a pixel
    that is set in two training images, it is out of proportion where other images set it.
    """
    varies = np.any([_rest(table.X) > _RARE for table in train], axis=0)
    own = {name: clone(value, safe=False) for name, value in parameters.items()}
    model = clone(method.estimator).set_params(**own)
    model.fit([t.X[:, varies] for t in train], [Partition.from_labels(t.y) for t in train])
    components = np.zeros((len(model.components_), len(varies)))
    components[:, varies] = model.components_
    model.components_ = components
    return model


def _rest(X: NDArray) -> NDArray:
    """Share of the samples without the most common value, for every feature."""
    return np.array([1 - np.unique(x, return_counts=True)[1].max() / len(x) for x in X.T])


def _scores(model: Any, table: LabeledTable, n_init: int, seed: int) -> tuple[float, float]:
    """‖M−N‖² and the adjusted Rand index of K-means, K given."""
    truth = Partition.from_labels(table.y)
    found = _clusters(_transformed(model, table), truth.n_clusters, n_init, seed)
    rand = adjusted_rand_score(truth.labels, found.labels)
    return FrobeniusLoss().squared_norm(found, truth), float(rand)


def _clusters(Z: NDArray, K: int, n_init: int, seed: int) -> Partition:
    """K-means; a metric of rank 0 tells no samples apart and gets K random clusters.

    K-means would then return a single cluster, whose loss K − 1 is less than that of many metrics.
    """
    if not np.any(np.ptp(Z, axis=0) > 0):
        return Partition.from_labels(np.random.RandomState(seed).permutation(len(Z)) % K)
    means = KMeans(K, n_init=n_init, random_state=seed)
    return Partition.from_labels(means.fit_predict(Z))


def _transformed(model: Any, table: LabeledTable) -> NDArray:
    Z = center(table.X) @ model.components_.T
    return Z if Z.shape[1] else np.zeros((len(table), 1))


def _draw(
    results: Sequence[Result], cases: Sequence[Case], config: DictConfig, folder: Path
) -> None:
    """Two dimensions of one test table under two methods: before and after learning."""
    case = next((c for c in cases if [c.protocol, c.table] == list(config.drawn)), cases[0])
    own = {result.method: result for result in results if result.case == case_key(case)}
    shown = [own[name] for name in config.drawn_methods if name in own]
    if not shown:
        return
    kinds = {"A": "training data", "B": "held-out samples", "C": "held-out classes"}
    panels = {
        f"{result.method}: ‖M−N‖² = {np.mean(result.losses):.2f}": _two(
            _transformed(result.model, case.test)
        )
        for result in shown
    }
    title = f"{case.table}, {kinds[case.protocol]}: before and after learning the metric"
    figure = plot_embeddings(panels, case.test.y, title)
    for kind in ("png", "svg"):
        figure.savefig(folder / f"clustering.{kind}", dpi=160)


def case_key(case: Case) -> tuple[str, str, int]:
    """What results and cases have in common."""
    return case.protocol, case.table, case.repetition


def _two(Z: NDArray) -> NDArray:
    """The two leading principal components; a zero second one for rank 1."""
    U, s, _ = np.linalg.svd(center(Z), full_matrices=False)
    Z = U[:, :2] * s[:2]
    return Z if Z.shape[1] == 2 else np.c_[Z, np.zeros(len(Z))]


def _artifacts(results: Sequence[Result], cases: Sequence[Case], config: DictConfig) -> Artifacts:
    last = cases[0]
    own = [r for r in results if r.case == case_key(last) and hasattr(r.model, "solution_")]
    choices: dict[str, str] = {}
    for result in results:
        if result.choice and result.case[2] == 0:
            text = f"{result.case[0]}, {result.case[1]}: {result.choice}; "
            choices[result.method] = choices.get(result.method, "") + text
    return Artifacts(
        weights={r.method: _weights(r.model, last.train) for r in own},
        feature_names=last.test.feature_names,
        traces={r.method: vars(r.model.solution_.trace) for r in own},
        choices={method: text.rstrip("; ") + "." for method, text in choices.items()},
        notes=[
            "The table above has one value per protocol and data set, the mean ‖M−N‖² over its "
            "repetitions, on test data where there are some: clustering.md has them all.",
            "A: train = test, several K-means seeds. B: stratified half/half splits. C: learn on "
            "half of the classes, as two data sets, cluster the others. K is given. Features with "
            "one value in more than 99 % of the training samples are left out, for every method.",
            "Hyper-parameters are chosen in the training part only: A by the training loss with "
            "other K-means seeds, B on splits of the training half, a third held out, C by "
            "holding out the classes of one of the two training data sets. The best candidate "
            "replaces the first of its grid where it is better by more than one standard error of "
            "their difference, corrected for splits that share samples.",
            f"Weights and training are those of {last.protocol}, {last.table}, repetition 0.",
        ],
    )


def _weights(model: Any, train: Tables) -> NDArray:
    """B for standardized features: its diagonal (P,) where nothing else can be, or (P, P)."""
    components = model.components_ * np.vstack([center(table.X) for table in train]).std(axis=0)
    B = components.T @ components
    diagonal = np.count_nonzero(B) == np.count_nonzero(np.diag(B))
    return np.diag(B) if diagonal else B


def _load(config: DictConfig, name: str) -> LabeledTable:
    if name not in config.tables:
        raise ValueError(
            f"The clustering experiment needs tables among {', '.join(config.tables)}, got {name}."
        )
    return instantiate(config.tables[name].loader)
