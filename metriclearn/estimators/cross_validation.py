"""ChangePointMetricLearnerCV: the strength of regularization by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import check_cv

from metriclearn.estimators.alternation import Alternation
from metriclearn.estimators.change_points import ChangePointMetricLearner
from metriclearn.estimators.inputs import read_data_sets, read_weights
from metriclearn.estimators.path import regularization_path, strengths_of
from metriclearn.problem.oracle import Oracle
from metriclearn.running.executors import Executor
from metriclearn.running.stored import is_stored
from metriclearn.solvers.base import Callback, Solver
from metriclearn.solvers.bundle import BundleDual
from metriclearn.solvers.mahalanobis import DiagonalMetric, Metric
from metriclearn.solvers.regularizers import L1, Regularizer

__all__ = ["ChangePointMetricLearnerCV"]


class ChangePointMetricLearnerCV(ChangePointMetricLearner):
    """Metric learner whose strength has the least mean loss on left-out sequences.

    As scikit-learn's ``LassoCV``: one warm-started path of strengths for each fold over whole
    sequences, then one on all of them. With partial labels every fold completes and learns in
    turns at every strength, as ``fit`` does, and the loss on left-out sequences charges what is
    known of them; that is as many whole fits as there are pairs of a fold and a strength.

    Parameters
    ----------
    strengths : int or array (S,)
        Strengths to choose from, or how many, in geometric progression from one at which L1 and
        trace give B = 0.
    ratio : float
        Least over greatest strength, for a number of strengths.
    cv : int, cross-validation splitter or iterable, optional
        As in scikit-learn; by default 5 folds, or as many as there are sequences.
    metric, regularizer, solver, penalty, loss_scale, n_segments, min_size, standardize, \
oracle, alternation, callbacks, n_jobs, executor, verbose
        As in :class:`ChangePointMetricLearner`; the regularizer's own strength is not used.

    Attributes
    ----------
    strength_ : float
        The chosen one.
    strengths_ : array (S,)
        Decreasing.
    loss_path_ : array (S, F)
        Mean loss ℓ on the left-out sequences of every fold.
    path_ : RegularizationPath
        On all sequences, with the losses of the folds; ``path_.plot()`` draws both. Not saved:
        a loaded learner has ``strengths_``, ``loss_path_`` and the chosen one, but no ``path_``.
    components_, penalty_, solution_, scale_, n_features_in_, feature_names_in_
        As in :class:`ChangePointMetricLearner`, at the chosen strength.

    Examples
    --------
    >>> from metriclearn import ChangePointMetricLearnerCV
    >>> from metriclearn.datasets import make_change_points
    >>> data = make_change_points(n_features=30, n_relevant=3, random_state=0)
    >>> learner = ChangePointMetricLearnerCV(strengths=5, cv=3).fit(data.sequences, data.labels)
    >>> learner.loss_path_.shape
    (5, 3)
    """

    def __init__(
        self,
        metric: Metric = DiagonalMetric(),  # noqa: B008  # never changed, see set_params
        regularizer: Regularizer = L1(),  # noqa: B008
        solver: Solver = BundleDual(),  # noqa: B008
        *,
        strengths: int | ArrayLike = 20,
        ratio: float = 1e-3,
        cv: Any = None,
        penalty: str | float = "learned",
        loss_scale: float = 1.0,
        n_segments: str | None = None,
        min_size: int = 1,
        standardize: bool = True,
        oracle: Oracle | None = None,
        alternation: Alternation = Alternation(),  # noqa: B008
        callbacks: Sequence[Callback] = (),
        n_jobs: int | None = None,
        executor: Executor | None = None,
        verbose: bool | None = None,
    ) -> None:
        super().__init__(
            metric,
            regularizer,
            solver,
            penalty=penalty,
            loss_scale=loss_scale,
            n_segments=n_segments,
            min_size=min_size,
            standardize=standardize,
            oracle=oracle,
            alternation=alternation,
            callbacks=callbacks,
            n_jobs=n_jobs,
            executor=executor,
            verbose=verbose,
        )
        self.strengths = strengths
        self.ratio = ratio
        self.cv = cv

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, groups: Any = None
    ) -> Self:
        """Choose the strength on left-out sequences, then learn from all.

        Parameters
        ----------
        X, y, sample_weight
            Several sequences, see :meth:`ChangePointMetricLearner.fit`.
        groups : array (N,), optional
            Sequences of one group stay together, for splitters that use groups.
        """
        who = type(self).__name__
        data = read_data_sets(who, X)
        n = len(data.arrays)
        if data.single or n < 2:
            raise ValueError(
                f"{who} needs at least 2 sequences to leave some out, got 1; pass a list of "
                "sequences, or use ChangePointMetricLearner."
            )
        if y is None:
            raise ValueError(
                f"{who} requires y to be passed, but the target y is None; pass labels."
            )
        X, y = (
            [item[i] for i in range(len(item))] if is_stored(item) else list(item)
            for item in (X, y)
        )
        weights = read_weights(who, sample_weight, n)
        learner = self._learner()
        problem = learner._problem(X, y, sample_weight)
        self.strengths_ = strengths_of(self.strengths, problem, self.ratio)
        splitter = check_cv(min(5, n) if self.cv is None else self.cv)
        folds = list(splitter.split(np.arange(n), None, groups))
        if not folds or not all(len(train) and len(test) for train, test in folds):
            raise ValueError(
                f"{who} needs folds with sequences to train on and to leave out, got "
                f"cv={self.cv!r}."
            )
        losses = [self._losses(learner, X, y, weights, *fold) for fold in folds]
        self.loss_path_ = np.array(losses).T
        path = regularization_path(learner, X, y, self.strengths_, sample_weight=sample_weight)
        self.path_ = replace(path, validation_loss=self.loss_path_)
        self.strength_ = float(self.strengths_[self.path_.best])
        chosen = self.path_.learners[self.path_.best]
        self.__dict__.update({k: v for k, v in vars(chosen).items() if k.endswith("_")})
        self._report()
        return self

    def _learner(self) -> ChangePointMetricLearner:
        parameters = self.get_params(deep=False)
        for name in ("strengths", "ratio", "cv"):
            parameters.pop(name)
        return ChangePointMetricLearner(**parameters)

    def _losses(
        self,
        learner: ChangePointMetricLearner,
        X: list[Any],
        y: list[Any],
        weights: NDArray | None,
        train: NDArray,
        test: NDArray,
    ) -> NDArray:
        """Loss on the left-out sequences at every strength."""
        path = regularization_path(
            learner,
            [X[i] for i in train],
            [y[i] for i in train],
            self.strengths_,
            validation=([X[i] for i in test], [y[i] for i in test]),
            sample_weight=None if weights is None else weights[train],
        )
        if any(solution.reason == "interrupted" for solution in path.solutions):
            raise KeyboardInterrupt  # half a comparison chooses nothing
        assert path.validation_loss is not None
        return path.validation_loss
