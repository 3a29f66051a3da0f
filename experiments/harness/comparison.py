"""Compare our segmenters with baselines on sequences, with estimated and given numbers of segments.

Cross-validation chooses the candidate with the least mean ‖M − N‖², once for an estimated and once
for a given number of segments. The chosen candidate is fitted again on all training data, and
scored on the test data.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from omegaconf import DictConfig
from sklearn.utils.validation import has_fit_parameter

from experiments.harness.cases import fingerprints, read_cases
from experiments.harness.committed import FEW, KEY, SIGNAL, TRIVIAL_LOSSES, default_losses
from experiments.harness.procedure import Case, Losses, Method, Outcome, Procedure, Scores, Story
from experiments.harness.report import Artifacts, Strip, file_name, page
from experiments.harness.results import (
    COLUMNS,
    MEASURE,
    ONE,
    OURS,
    Cells,
    Row,
    grouped,
    is_ours,
    results_table,
    statistics,
    titled,
)
from experiments.harness.scoring import (
    NAMES,
    Pairs,
    named_scores,
    segmented,
    sequence_losses,
    squared_norm,
    squared_norms,
    truth_of,
)
from metriclearn import Partition, Segmenter, save
from metriclearn.datasets import LabeledSequences
from metriclearn.estimators.scores.segmenting import MahalanobisSegmenter
from metriclearn.estimators.selection.families import SIGNALS
from metriclearn.plots.canvas import number

LEARNED, TUNED, RELATIVE = "learned", "tuned", "relative"  # where a penalty comes from
_WORDS = {
    LEARNED: ", penalty as learned",
    TUNED: ", penalty tuned afterwards",
    RELATIVE: ", penalty tuned in units of each sequence's variance",
}
Learner = TypeVar("Learner", bound=MahalanobisSegmenter)


class Comparison(Procedure):
    """An experiment that compares segmenters on a data set of sequences.

    Held-out losses choose the penalty of every candidate. One choice is the penalty that ``fit``
    gives. For methods with the option ``learns_penalty``, a second choice is the penalty of
    :func:`with_tuned_penalty`. Other methods tune their penalty in ``fit``. If ``relative`` is
    true, a method with a metric and without names can also have a penalty in units of each
    sequence's variance; the configuration may set ``relative``. The option ``columns`` of a method
    restricts its columns.
    """

    relative = True
    few_labels = False  # whether training data are labeled in part

    backend = "threads"
    validates_one = True
    reads_test_root = True
    measures = titled(
        *(MEASURE, NAMES, "named_edit_score"),
        *(f"named_segmental_f1@{share}" for share in (10, 25, 50)),
    )

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self.relative = config.get("relative", self.relative)

    def cases(self) -> list[Case]:
        return read_cases(self.config)

    def columns(self, method: Method) -> Sequence[str]:
        return tuple(method.options.get("columns", COLUMNS))

    def units(self, data: Any) -> Sequence[str]:
        return data.groups

    def fit(self, estimator: Any, data: Any, method: Method) -> Any:
        groups = data.groups if len(set(data.groups)) > 1 else None
        return fit_in_groups(estimator, data.sequences, data.labels, groups)

    def validate(self, method: Method, model: Any, train: Any, held_out: Any) -> Losses:
        models: dict[Any, Any] = {None: model}
        if method.options.get("learns_penalty"):
            models = {LEARNED: model, TUNED: with_tuned_penalty(model, train)}
        score = getattr(model, "score_", None)
        if self.relative and "variance" in getattr(score, "units", ()):
            models[RELATIVE] = with_tuned_penalty(model, train, "variance")
        estimated = {name: sequence_losses(fitted, held_out) for name, fitted in models.items()}
        if "given" not in self.columns(method):
            return {"estimated": estimated}
        given = {None: sequence_losses(model, held_out, "given")}
        return {"estimated": estimated, "given": given}

    def score(self, model: Any, option: Any, column: str, case: Case) -> tuple[Any, Scores]:
        if option in (TUNED, RELATIVE):
            unit = "variance" if option == RELATIVE else None
            model = with_tuned_penalty(model, case.train, unit)
        begun = self.processor_time()
        pairs = segmented(model, case.test, column)
        seconds = self.processor_time() - begun
        return model, self.measured(model, pairs, seconds, column, case)

    def measured(self, model: Any, pairs: Pairs, seconds: float, column: str, case: Case) -> Scores:
        """Compute all measures of the segmentations that the model found. The model took
        ``seconds`` to find these segmentations."""
        scores = {MEASURE: squared_norms(pairs, case.test)}
        if column == "estimated" and getattr(model, "classes_", None) is not None:
            named = named_scores(model, [found for found, _ in pairs], case.test)
            scores |= {name: named[name] for name in named if name in self.measures}
        return scores

    def numbers(self, outcomes: Sequence[Outcome]) -> dict[str, list[Row]]:
        """Also note the losses of a single segment in the main tables. They tell whether committed
        results are of the same test data."""
        told = super().numbers(outcomes)
        cases = grouped({id(o.case): o.case for o in outcomes}.values(), lambda case: case.table)
        for table in told["tables"]:
            tests = [case.test for case in cases.get(table["name"], [])]
            units = [unit for test in tests for unit in self.units(test)]
            if table["main"] and len(units) == sum(map(len, tests)):
                losses = [
                    squared_norm(Partition(ends=np.array([len(y)])), truth_of(y))
                    for test in tests
                    for y in test.labels
                ]
                row = statistics(np.array(losses), units)
                table[TRIVIAL_LOSSES] = dict(zip(row["units"], row["values"]))
        return told

    def _entries(self) -> list[Any]:
        """Return the methods of the configuration, those that are not fitted again, too."""
        return list(filter(None, (self.config.get(self.entries) or {}).values()))

    def default(self, outcomes: list[Outcome]) -> dict[str, Any]:
        """Return what the default does on small data sets, if it was fitted as the row "ours".

        Those that concern only experiments of another kind are left out.
        """
        fitted = {one.name for one in outcomes if one.method.estimator is not None}
        mine = [one.estimator for one in self._entries() if one.name == OURS and OURS in fitted]
        plain = [one for one in mine if set(one) <= {"_target_", "verbose"}]
        if not plain or plain[0]["_target_"] != "metriclearn.Segmenter" or self.config.tiny:
            return {}
        narrow = any(one.case.train.sequences[0].shape[1] <= SIGNALS for one in outcomes)
        others = [FEW] * (not self.few_labels) + [SIGNAL] * (not narrow)
        return {KEY: {n: loss for n, loss in default_losses().items() if n not in others}}

    def option_words(self, option: Any, column: str) -> str:
        return _WORDS.get(option, "") if column == "estimated" else ""

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        """Save all models in ``models/``, and the model of :func:`best_outcome` as ``model.npz``.
        Draw the segmentations of the row "ours"."""
        cases = list({outcome.case.name: outcome.case for outcome in outcomes}.values())
        first = [outcome for outcome in outcomes if outcome.case is cases[0]]
        mine, told = best_outcome(first), self.numbers(outcomes)
        (folder / "models").mkdir(parents=True, exist_ok=True)
        for outcome in outcomes:
            name = f"{outcome.name}-{outcome.case.name}" if len(cases) > 1 else outcome.name
            save_model(outcome, folder / "models" / f"{file_name(name)}.npz")
        save_model(mine, folder / "model.npz")
        facts = {
            "case": cases[0],
            "cases": [case.name for case in cases],
            "made": self.config.dataset is not None and "root" not in self.config.dataset,
            "unit": self.config.unit,
            "unseen": (self.config.dataset or {}).get("test_root") is not None,
            "model": mine.choices["estimated"].method or mine.name,
            "is_default": any(one.name == OURS for one in self._entries()),
            "row": mine.name,
        }
        encoded = encoder_of(mine.models["estimated"]) is not None  # its features have no names
        artifacts = Artifacts(
            strips=_typical_strips(first, results_table(told), mine),
            feature_names={} if encoded else {mine.name: cases[0].train.feature_names},
            model_file="model.npz",
            notes=page("comparison.notes.j2", **facts).splitlines(),
            **learned_metrics({mine.name: mine.models["estimated"]}),
        )
        protocol = page("comparison.protocol.j2", **facts).strip()
        return Story(protocol, artifacts, told, self.default(outcomes))


def encoder_of(model: Any) -> Any:
    """Return the trained Encoder that a model sees its rows through, or None."""
    view = getattr(getattr(model, "score_", None), "view", None)
    last = getattr(view, "views_", [view])[-1]
    return last if hasattr(last, "network_") else None


def fit_in_groups(estimator: Any, X: Any, y: Any, groups: Any) -> Any:
    """Fit an estimator, with the groups of the recordings if its ``fit`` takes them."""
    given = {"groups": groups} if has_fit_parameter(estimator, "groups") else {}
    return estimator.fit(X, y, **given)


def save_model(outcome: Outcome, file: Path) -> None:
    """Save the model of the column "estimated", with hashes of its training sequences and the names
    of its features.

    A model without a metric (such as equal cuts) is saved only if it is a Segmenter.
    """
    model, train = outcome.models["estimated"], outcome.case.train
    if hasattr(model, "components_") or isinstance(model, Segmenter):
        known = copy.copy(model)
        known.training_sequences_ = dict(zip(train.names, fingerprints(train)))
        known.feature_names_in_ = np.array(train.feature_names, dtype=object)
        save(known, file)


def with_tuned_penalty(
    learner: Learner, data: LabeledSequences, unit: str | None = None
) -> Learner:
    """Copy a fitted learner, and give the copy the penalty with the least mean loss on the data.

    The search is exact. The metric does not change. ``tune_penalty`` describes the unit of the
    penalty. If the metric is zero, the copy keeps the penalty of the learner.
    """
    tuned = copy.copy(learner)
    if len(learner.components_):
        tuned.tune_penalty(data.sequences, data.labels, unit)
    return tuned


def best_outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of the row "ours/one model", or else of the row "ours". If both rows are
    missing, return the outcome with the least held-out loss among the methods with a metric."""
    chosen = [outcome for name in (ONE, OURS) for outcome in outcomes if outcome.name == name]
    if chosen:
        return chosen[0]
    some = [o for o in outcomes if hasattr(o.models["estimated"], "components_")]
    return min(some, key=lambda outcome: outcome.held_out()) if some else outcomes[0]


def learned_metrics(models: Mapping[str, Any], scale: ArrayLike | None = None) -> dict[str, Any]:
    """Collect the ``weights`` and ``traces`` of :class:`Artifacts` from all models that were
    trained.

    Weights apply to features divided by ``scale``, by default the scale of each model.
    """
    trained = {name: model for name, model in models.items() if hasattr(model, "solution_")}
    return {
        "weights": {name: standardized_weights(model, scale) for name, model in trained.items()},
        "traces": {name: vars(model.solution_.trace) for name, model in trained.items()},
    }


def column_units(model: Any) -> NDArray:
    """Return the unit of each column of the data, (P,).

    The unit is 1 if the model has no scale, or scales the rows of a view with other columns.
    """
    scale = np.asarray(getattr(model, "scale_", 1.0))
    n = model.components_.shape[1]
    return scale if scale.shape == (n,) else np.ones(n)


def standardized_weights(model: Any, scale: ArrayLike | None = None) -> NDArray:
    """Return the matrix B for scaled features, (P, P). If B is diagonal, return only its diagonal,
    (P,)."""
    units = column_units(model) if scale is None else np.asarray(scale)
    components = model.components_ * np.where(np.isfinite(units), units, 0.0)  # constants have none
    B = components.T @ components
    diagonal = np.count_nonzero(B) == np.count_nonzero(np.diag(B))
    return np.diag(B) if diagonal else B


def _typical_strips(outcomes: Sequence[Outcome], table: Cells, one: Outcome) -> list[Strip]:
    """Prepare pictures of the three test sequences where ours has its best, median and worst loss.

    Our prediction is shown next to the prediction of the baseline that the headline names. The
    caption has the mean losses of both methods over all test sequences, because three pictures are
    not a result. A picture shows the three features with the largest weights in the model of
    ``one``, or the first three if it has no metric. If this model has an encoder, the picture shows
    the three learned features with the largest variance.
    """
    by_name = {outcome.name: outcome for outcome in outcomes}
    column = next(iter(next(iter(table.values()))))
    means = {name: cells[column] for name, cells in table.items() if column in cells}
    ours = by_name.get(OURS, one)
    others = [name for name in means if not is_ours(name) and name in by_name]
    rivals = sorted(others, key=lambda name: means[name].mean)[:1]
    pair = [ours, *map(by_name.__getitem__, rivals)]
    order = np.argsort(ours.losses(), kind="stable")
    model, last = one.models["estimated"], len(order) - 1
    if hasattr(model, "components_"):
        weights, scale = standardized_weights(model), column_units(model)  # baselines scale
        diagonal = np.diag(weights) if weights.ndim == 2 else weights
    else:
        scale = np.vstack(one.case.train.sequences).std(axis=0)
        diagonal, scale = np.sign(scale), np.where(scale > 0.0, scale, 1.0)
    leading = np.argsort(-diagonal, kind="stable")[:3]
    words = {(last + 1) // 2: "median", last: "worst", 0: "best"}
    all_of_them = ", ".join(f"{o.name} {number(means[o.name].mean)}" for o in pair)
    data, strips = ours.case.test, []
    for place in sorted(words):
        i = int(order[place])
        X, truth = data.sequences[i], Partition.from_runs(data.labels[i])
        ends = {o.name: o.models["estimated"].predict_change_points([X])[0] for o in pair}
        shown = {data.feature_names[j]: X[:, j] / scale[j] for j in leading}
        if encoder_of(model) is not None:
            Z = model.transform(X)
            some = np.argsort(-Z.var(axis=0), kind="stable")[:3]
            shown = {f"learned feature {j}": Z[:, j] for j in some}
        strips.append(
            Strip(
                f"{data.names[i]} ({words[place]} of ours; mean over all tests: {all_of_them})",
                {"truth": truth.change_points} | ends,
                {outcome.name: float(outcome.losses()[i]) for outcome in pair},
                shown,
            )
        )
    return strips
