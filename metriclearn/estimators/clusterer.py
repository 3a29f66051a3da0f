"""Clusterer: learns from clustered tables or segmented images to cluster new ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from inspect import signature
from typing import Annotated, Any, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.validation import check_is_fitted

from metriclearn.estimators.learners.clustering import ClusteringMetricLearner
from metriclearn.estimators.learners.concerns import note_labels
from metriclearn.estimators.learners.whitened import WhitenedClusteringLearner
from metriclearn.estimators.reading.data_sets import DataSets, NamedColumns
from metriclearn.estimators.reading.given import Given
from metriclearn.estimators.reading.labels import read_weights, refuse_sets_without_labels
from metriclearn.estimators.selection.cross_fit import Candidate, CrossFit
from metriclearn.estimators.selection.families import lists_families
from metriclearn.estimators.selection.fits import Choice, Fits, Tables
from metriclearn.estimators.selection.parts import Member, Parts
from metriclearn.estimators.selection.rules import Rule
from metriclearn.oracles.expected_loss import best_clustering
from metriclearn.problem.consensus_form import ConsensusForm
from metriclearn.problem.losses import FrobeniusLoss
from metriclearn.problem.partition import Partition, codes_of_known, factorize, label_values
from metriclearn.running.components import ComponentParameters
from metriclearn.running.executors import one_blas_thread
from metriclearn.running.parameters import Jobs, Needs, OneOf, Whole, check_parameters
from metriclearn.running.values import check_each, check_scale, dimensions, real_array, shown
from metriclearn.solvers.mahalanobis import DiagonalMetric
from metriclearn.solvers.regularizers import L1
from metriclearn.views.plain import read_groups

# From simple to complex. The seeds make the same call give the same answer.
_FAMILIES = {
    "diagonal": [ClusteringMetricLearner(DiagonalMetric(), L1(1e-3), random_state=0)],
    "full": [ClusteringMetricLearner(random_state=0)],
    "whitened": [WhitenedClusteringLearner(random_state=0)],
}


def _clusters(model: Any) -> bool:
    fit, predict = (getattr(model, name, None) for name in ("fit", "predict"))
    if not (callable(fit) and callable(predict)):
        return False
    taken = signature(predict).parameters.values()
    return any(one.name == "n_clusters" or one.kind is one.VAR_KEYWORD for one in taken)


_MEMBERS = Needs(
    "{name} as a mapping of families to lists of clusterers with predict(X, n_clusters), or None",
    lambda given: given is None or lists_families(given, _clusters),
)


class Clustered(NamedTuple):
    """Tables or images with labels, or a single table, whose rows can be divided.

    Attributes
    ----------
    X, y : lists, or arrays (T, P) and (T,) of a single table
    groups : int array (N,), or None for a single table
    columns : names of the columns of a single table, or None
    """

    X: Any
    y: Any
    groups: NDArray | None
    columns: Any = None

    def subset(self, places: NDArray) -> tuple[list[Any], list[Any]]:
        """Return the data sets at some places and their labels, or a table of some rows."""
        if self.groups is not None:
            return [self.X[i] for i in places], [self.y[i] for i in places]
        return [NamedColumns.of(self.X[places], self.columns)], [self.y[places]]


@dataclass(eq=False, repr=False)
class Clusterer(ComponentParameters):
    """Learn from clustered tables or segmented images to cluster new ones.

    :class:`~metriclearn.Segmenter` does the same for recordings. The data are divided into parts.
    For each part, every member is fitted to all other parts, and clusters the part that was left
    out. With ``combine="best"``, the best member is then fitted to all data.

    With "consensus", the models of all parts are kept. For new data, their predictions N_j are
    combined in a compromise,

        argmin_M Σ_j q_j ‖M − N_j‖²_F,

    which a local search approximates. If the models have the requested number of clusters, the
    expected loss of the compromise is never above the expected loss of any model. This loss is at
    most twice the least possible expected loss, see :mod:`metriclearn.oracles.expected_loss`.

    Parameters
    ----------
    members : mapping of names to lists of clusterers, optional
        Families of members, from simple to complex. The weight of a member is divided by the number
        of members in its family, so a large family has no advantage. A member is a
        :class:`~metriclearn.ClusteringMetricLearner`, a
        :class:`~metriclearn.NormalizedCutMetricLearner`, or another clusterer with ``fit(X, y)``
        and ``predict(X, n_clusters)`` for lists of data sets. The default is a diagonal, a full and
        a whitened metric for tables, with ``random_state=0``.
    combine : "best", "consensus" or "uniform"
        "best" is the simplest family whose loss on the parts left out exceeds the least by at most
        one standard error. With "consensus", the weights q are chosen so that the weighted mean of
        the members' matrices predicts the matrices of the labels best, by least squares on the
        parts left out. Few clusters pull the weights towards each other. With "uniform", all
        families have the same weight.
    n_clusters : "given" or None
        With "given", the numbers of clusters are known. For the parts left out, they are counted in
        the labels. With None, each model estimates these numbers, and the compromise may have any
        number of clusters.
    n_folds : int
        Number of parts that are left out, one at a time. A part of several data sets consists of
        whole groups. A part of a single table is a stratified sample of the rows.
    n_jobs : int, optional
        Number of fits that run at the same time, as in joblib.
    verbose : bool, optional
        Show a progress bar of the fits always (True), never (False), or in a terminal (None).

    Attributes
    ----------
    models_ : list of fitted clusterers
        One with ``combine="best"``.
    families_ : list of str
        The family of each model.
    weights_ : array (models,)
        q, with sum one.
    cross_fit_ : CrossFit
        Members × data sets that were left out, with the loss of each; a part of a single table is a
        data set. It is not saved.
    choice_ : Choice or None
        The candidates, if one was chosen.

    Raises
    ------
    ValueError
        For data, labels or parameters that cannot be used, and for fewer than two groups.

    References
    ----------
    Strehl & Ghosh, Cluster ensembles: a knowledge reuse framework for combining multiple
    partitions, Journal of Machine Learning Research 3, 2002.

    Examples
    --------
    >>> from metriclearn import Clusterer, ClusteringMetricLearner
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clusterer = Clusterer({"full": [ClusteringMetricLearner()]}, n_folds=2).fit(X, y)
    >>> len(set(clusterer.predict(X, 3)))
    3
    """

    cross_fit_ = cast("CrossFit | None", None)  # not in model files

    members: Annotated[Mapping[str, Any] | None, _MEMBERS] = None
    _: KW_ONLY
    combine: Literal["best", "consensus", "uniform"] = "best"
    n_clusters: Annotated[str | None, OneOf("given", None)] = "given"
    n_folds: Annotated[int, Whole(2)] = 5
    n_jobs: Jobs = None
    verbose: Annotated[bool | None, OneOf(None, True, False)] = None

    def fit(self, X: Any, y: Any, groups: ArrayLike | None = None) -> Self:
        """Fit every member several times, leaving out one part at a time, and choose or combine.

        Parameters
        ----------
        X : (T, P) table, or sequence of tables or (H, W, 3) images
        y : labels of the samples, or label maps, −1 where unknown
        groups : array (N,), optional
            Group of every data set, such as the place where an image was taken. All data sets of a
            group are left out together.
        """
        check_parameters(self)
        given = _read_clustered(type(self).__name__, X, y, groups)
        listed = given.X if given.groups is not None else []
        if self.members is None and any(dimensions(one) == 3 for one in listed):
            raise ValueError(
                f"{type(self).__name__} needs members for images, as those of the default are for "
                "tables, got none; pass members={'cuts': [NormalizedCutMetricLearner()]}."
            )
        folds, units = self._folds(given)
        tests = [given.subset(test) for _, test in folds]
        parts = [given.subset(train) for train, _ in folds]
        if self.combine == "best":
            parts.append(given.subset(np.arange(len(given.X))))
        families = _FAMILIES if self.members is None else self.members
        members = [Member(name, one) for name, family in families.items() for one in family]
        runner = Fits(type(self).__name__, n_jobs=self.n_jobs, verbose=self.verbose)
        tables = Tables([(arrays, labels, np.zeros(len(labels))) for arrays, labels in parts])
        single = one_blas_thread(np.shape(parts[0][0][0])[-1])  # as for Segmenter
        with single, runner.bar(members, len(parts)) as bar:
            _, models, *_ = runner.run(members, tables, bar)
        truths = [_cluster_codes(one) for _, labels in tests for one in labels]
        whole = truths if given.groups is not None else [_cluster_codes(given.y)]
        note_labels(type(self).__name__, [Partition.from_labels(one[one >= 0]) for one in whole])
        sizes = [len(labels) for _, labels in tests]
        left_out = np.split(np.arange(len(truths)), np.cumsum(sizes)[:-1])
        answers: list[dict[int, Partition]] = [{} for _ in models]
        for row, found in zip(models, answers):
            for model, places, (arrays, _) in zip(row, left_out, tests):
                own = [_count(truths[i]) for i in places]
                counts = {} if self.n_clusters is None else {"n_clusters": own}
                for i, one in zip(places.tolist(), model.predict(arrays, **counts)):
                    found[i] = Partition.from_labels(np.ravel(one))
        table = CrossFit(
            members,
            Parts(left_out, units),
            models,
            Given(DataSets([], False, None), [], truths, units),
            _squared_norm,
            candidates=tuple(Candidate(m, Rule(), row) for m, row in enumerate(models)),
            answers=tuple(answers),
        )
        self._keep(table)
        return self

    def _keep(self, table: CrossFit) -> None:
        """Choose a member, or weigh all."""
        self.cross_fit_, self.choice_ = table, None
        if self.combine == "best":
            best = table.best()
            names = [f"{family} {i}" for i, family in enumerate(table.families)]
            self.choice_ = Choice(names, table.group_losses(), best, [])
            self.models_, self.families_ = [table.models[best][-1]], [table.families[best]]
            self.weights_ = np.ones(1)
            return
        uniform = self.combine == "uniform"
        weights = table.equal_shares() if uniform else table.stacked(table.places)[0]
        n = len(table.models[0])
        self.models_ = [model for row in table.models for model in row]
        self.families_ = [name for name in table.families for _ in range(n)]
        self.weights_ = np.repeat(weights, n) / n

    def predict(self, X: Any, n_clusters: int | Sequence[int] | None = None) -> Any:
        """Return the cluster of every sample, (T,), or (H, W) for an image.

        Clusters are numbered by first appearance.

        Parameters
        ----------
        X : table, image, or a sequence of these
        n_clusters : int or sequence of int, optional
            K. By default every model chooses K as in its own ``predict``. If ``n_clusters="given"``
            and all models choose the same K, the compromise has K clusters, too. Otherwise the
            compromise may have any number of clusters.
        """
        return self._of_each(X, n_clusters, lambda form, found, shape: found.labels.reshape(shape))

    def expected_loss(self, X: Any, n_clusters: int | Sequence[int] | None = None) -> Any:
        """Return the weighted mean of ‖M − N_j‖²_F over all models, for each data set.

        M is the answer, N_j is the prediction of model j, and q_j is its weight.
        """
        return self._of_each(X, n_clusters, lambda form, found, _: form.expected_loss(found))

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the mean loss ℓ = ‖M − N‖²_F / T. The best score is 0.

        N is the partition by the labels y. With ``n_clusters="given"`` the numbers of clusters are
        taken from y. ``sample_weight`` holds a weight for every data set, (N,).
        """
        single = _is_single(X)
        truths = list(map(_cluster_codes, [y] if single else y))
        known = list(map(_n_known, truths))
        refuse_sets_without_labels(type(self).__name__, known)
        counts = None if self.n_clusters is None else list(map(_count, truths))
        found = self.predict([X] if single else X, counts)
        check_each(type(self).__name__, "labeling", len(truths), "data sets", len(found))
        for labels, truth in zip(found, truths):
            check_each(type(self).__name__, "label", len(truth), "samples", labels.size)
        losses = [
            _squared_norm(Partition.from_labels(labels.ravel()), truth) / n
            for labels, truth, n in zip(found, truths, known)
        ]
        weights = read_weights(type(self).__name__, sample_weight, len(losses))
        return -float(np.average(losses, weights=weights))

    def _folds(self, given: Clustered) -> tuple[list[tuple[NDArray, NDArray]], NDArray]:
        """Divide the data sets, or the rows of a table, into those to fit to and those left out.

        Also returns the groups of the data sets left out, in their order.
        """
        if given.groups is not None:
            parts = Parts.of(given.groups, self.n_folds)
            return list(zip(parts, parts.left_out)), given.groups[np.concatenate(parts.left_out)]
        codes = factorize(given.y)
        if (largest := int(np.bincount(codes).max())) < self.n_folds:
            raise ValueError(
                f"{type(self).__name__} needs a cluster with one sample for each of "
                f"n_folds={self.n_folds}, got {largest} sample(s) in the largest; pass other "
                "labels, or fewer folds."
            )
        splitter = StratifiedKFold(self.n_folds, shuffle=True, random_state=0)
        folds = list(splitter.split(given.X, codes))
        known = given.y != -1
        if not all(known[test].any() for _, test in folds):
            raise ValueError(
                f"{type(self).__name__} needs a label in each of n_folds={self.n_folds} parts of "
                f"the table, got {known.sum()} label(s); label more samples."
            )
        return folds, np.arange(self.n_folds)

    def _of_each(self, X: Any, n_clusters: Any, result: Callable[..., Any]) -> Any:
        check_is_fitted(self, "models_")
        check_parameters(self)  # some may have been set after the fit
        single = _is_single(X)
        data = [X] if single else list(X)
        if isinstance(n_clusters, np.ndarray):
            n_clusters = n_clusters.tolist()
        counts = n_clusters if isinstance(n_clusters, Sequence) else [n_clusters] * len(data)
        options = {} if n_clusters is None else {"n_clusters": counts}
        answers = [model.predict(data, **options) for model in self.models_]
        results = []
        for given, count in zip(zip(*answers), counts):
            members = [Partition.from_labels(np.ravel(one)) for one in given]
            # If no number is given, but members all have one number, the answer has it, too.
            numbers = {one.n_clusters for one in members}
            if self.n_clusters == "given" and count is None and len(numbers) == 1:
                count = numbers.pop()
            form = ConsensusForm(members, self.weights_)
            found = best_clustering(ConsensusForm(members, form.weights), count).partition
            results.append(result(form, found, np.shape(given[0])))
        return results[0] if single else results


def _count(codes: NDArray) -> int:
    return int(codes.max()) + 1


def _n_known(codes: NDArray) -> int:
    return int(np.sum(codes >= 0))


def _squared_norm(found: Partition, codes: NDArray) -> float:
    """Compute ‖M − N‖²_F over the samples whose labels are known."""
    rows = np.flatnonzero(codes >= 0)
    loss = FrobeniusLoss()
    return loss.squared_norm(*map(Partition.from_labels, (found.labels[rows], codes[rows])))


def _read_clustered(who: str, X: Any, y: Any, groups: Any) -> Clustered:
    """Read tables or images and their labels; lists must have at least two groups."""
    if not _is_single(X):
        check_each(who, "labeling", len(y), "data sets", len(X))
        refuse_sets_without_labels(who, map(_n_known, map(_cluster_codes, y)))
        return Clustered(X, y, read_groups(who, groups, len(X)))
    if groups is not None:
        raise ValueError(
            f"{who} needs a list of data sets for groups, got one table; pass a table for each "
            "group of samples."
        )
    if len(X.shape) == 3:
        raise ValueError(
            f"{who} needs a table, or a list of tables or images, got one array of three "
            "dimensions; pass a list of two and more."
        )
    table, labels = real_array(who, "X", X), label_values(y)
    check_scale(who, table)
    check_each(who, "label", len(labels), "samples", len(table))
    return Clustered(table, labels, None, getattr(X, "columns", None))


def _is_single(X: Any) -> bool:
    """Tell whether X is one table or image, and not a list of tables or images."""
    if isinstance(X, (list, tuple)):
        return False
    # Tables have a shape. Turning anything else into an array may raise any error.
    shape = getattr(X, "shape", ())
    if not isinstance(shape, tuple) or len(shape) not in (2, 3) or hasattr(X, "toarray"):
        raise ValueError(
            f"Clusterer needs a table, an image or a list of them as X, got {shown(X)}."
        )
    return True


def _cluster_codes(labels: Any) -> NDArray[np.int64]:
    """Convert the label of every sample to a code. −1 means that the label is unknown."""
    if isinstance(labels, Partition):
        return labels.labels
    # Only label maps have several dimensions.
    return codes_of_known(labels.ravel() if isinstance(labels, np.ndarray) else labels)
