"""A fitted Segmenter in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from metriclearn.running.command_line import counted

_MOST = 8  # families in the table, those with the largest weights
_SOME_GROUPS = 4  # fewer say nearly nothing about how groups differ


def in_words(model: Any) -> dict[str, str]:
    """Describe a fitted Segmenter, its training data and its quality. Returns a text per title."""
    agreement, recordings = model.agreement_, model.trained_on_
    names = getattr(model, "feature_names_in_", range(model.n_features_in_))
    weights = np.zeros(model.n_features_in_)
    for share, score in zip(agreement.weights, agreement.scores):
        squares = (getattr(score, "components", np.zeros((0, 1))) ** 2).sum(axis=0)
        # behind a view that is not linear, weights are of its columns
        if squares.any() and score.view is None and len(squares) == len(weights):
            weights += share * np.sqrt(squares / squares.sum())
    order = np.argsort(-weights, kind="stable")[:5]
    kind = "tables" if model.extractor is None else type(model.extractor).__name__
    more = " ..." if len(recordings) > 8 else ""
    loss = found = "not known" + ", as too little is labeled" * (len(recordings) == 1)
    if (checked := model.validation_) is not None:
        loss = (
            f"{checked.loss:.2f} (mean ‖M − N‖² on held-out recordings; 0 is perfect, "
            f"{checked.one_segment:.2f} without any boundary, {checked.equal_cuts:.2f} with equal "
            f"cuts, {checked.euclidean:.2f} with the Euclidean metric)"
        )
        # without predictions "right" is 100 %
        none = checked.right > checked.found == 0
        found = (
            f"{checked.found:.0%} of {checked.boundaries} held-out ones within "
            f"{checked.tolerance:.3g} {_unit(model)}, "
            + ("none predicted" if none else f"{checked.right:.0%} of predictions right")
        )
    members, missing = _table(model), sentences(model.missing_)
    times = f"{counted(model.rows_per_second, 'row')} per second"
    return {
        "labels": ", ".join(model.labels_)
        or "none, only boundaries (to learn classes, give segments of the same kind the same "
        "label)",
        "trained on": f"{counted(len(recordings), 'recording')}: {', '.join(recordings[:8])}{more}",
        "features": f"{kind}, {counted(len(weights), 'column')}, "
        + (times if _unit(model) == "s" else "times in rows"),
        **({"rests on": _evidence(model)} if model.n_groups_ else {}),
        **({"segments expected": _expected(model)} if model.expected_length_ else {}),
        "boundaries found": found,
        "validation loss": loss,
        "learner": _learner(model),
        **({"members": members} if members else {}),
        **({"members left out": "\n".join(missing)} if missing else {}),
        "heaviest features": ", ".join(str(names[i]) for i in order if weights[i] > 0),
    }


def sentences(missing: Mapping[str, str]) -> list[str]:
    """Say why families of members are missing: a sentence for every reason."""
    families: dict[str, list[str]] = {}
    for family, why in missing.items():
        families.setdefault(" ".join(why.split()), []).append(repr(family))
    return [f"{', '.join(names)}: {why}" for why, names in families.items()]


def _evidence(model: Any) -> str:
    """Tell how many groups and segments the members were compared on, and whether they are few."""
    n, segments = model.n_groups_, model.n_segments_
    text = f"{counted(n, 'independent group')}, {counted(segments, 'labeled segment')}"
    if n >= _SOME_GROUPS:
        return text
    return (
        f"{text}. From {counted(n, 'group')} nobody can know how others differ; label recordings "
        f"of {_SOME_GROUPS} groups or more."
    )


def _expected(model: Any) -> str:
    """Tell how long segments are according to labeled stretches, and how well this is known."""
    usual, least, most = (f"{one:.3g}" for one in model.expected_length_)
    unit, length = _unit(model), model.segment_length
    stated = "" if length is None else f", with the stated length of {length:g} {unit}"
    return (
        f"of {usual} {unit} on average, between {least} and {most} {unit} with a probability of "
        f"90 %, by the labeled stretches{stated}"
    )


def _unit(model: Any) -> str:
    """Return the unit of times: without a rate, a row counts as a second."""
    return "rows" if model.rate is None and model.extractor is None else "s"


def _learner(model: Any) -> str:
    """Describe the only model, or count the models."""
    learner, agreement = model.learner_, model.agreement_
    if hasattr(learner, "solution_"):
        return (
            f"metric of rank {len(learner.components_)}, penalty per segment "
            f"{learner.penalty_:.4g}, certified gap {learner.solution_.relative_gap:.1e}"
        )
    n = len(agreement.scores)
    return counted(n, "model") + " that agree" * (n > 1)


def _table(model: Any) -> str:
    """Write a table of families: weight, loss on recordings left out, seconds; and baselines."""
    if not model.shares_:
        return ""
    lines = ["weight   loss  seconds"]
    for one in model.shares_[:_MOST]:
        lines.append(f"{one.weight:6.0%} {one.loss:6.2f} {one.seconds:8.1f}  {one.family}")
    if others := model.shares_[_MOST:]:
        weight, seconds = sum(one.weight for one in others), sum(one.seconds for one in others)
        least = min(one.loss for one in others)
        lines.append(f"{weight:6.0%} {least:6.2f} {seconds:8.1f}  the best of {len(others)} others")
    if (checked := model.validation_) is not None:
        lines.append(f"{'':6s} {checked.loss:6.2f} {'':8s}  all together")
        plain = {"Euclid": checked.euclidean, "equal cuts": checked.equal_cuts}
        for name, loss in {**plain, "one segment": checked.one_segment}.items():
            lines.append(f"{'':6s} {loss:6.2f} {'':8s}  {name}")
    return "\n".join(lines)
