"""The effect of fixing the penalty of a segment: the paper's setting and a learned penalty.

The paper fixes the penalty λ = 1 and the scale of the loss α = 1. Then λ and α cancel in
loss-augmented inference: (α − λ) Tr M = 0. As a consequence, the certified optimum has too few
segments on noisy data. In this experiment every setting is trained to the same certified gap on the
synthetic data and scored on test data.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness.choosing import chosen
from experiments.harness.comparison import Comparison, synthetic_sequences
from experiments.harness.procedure import (
    Case,
    Losses,
    Method,
    Outcome,
    Story,
    grouped,
    tables_and_rows,
)
from experiments.harness.report import Artifacts, learned_metrics, page
from experiments.harness.results import OURS
from experiments.harness.scoring import sequence_losses
from metriclearn import Partition


class PaperSetting(Comparison):
    """The experiment on settings.

    Every pair of a setting and a strength is a separate method, so nothing is chosen within a
    method. The rows of a setting show the results at its strength with the least validation loss.
    ``paper_setting.md`` has all strengths, with objective, gap and numbers of segments.
    """

    entries = "settings"
    agrees = False
    each_candidate = True
    reads_test_root = False

    def cases(self) -> list[Case]:
        train, validation, test = synthetic_sequences(self.config, self.config.seed)
        return [Case("test", train, test, [(train, validation)])]

    def validate(self, method: Method, model: Any, train: Any, held_out: Any) -> Losses:
        losses = sequence_losses(model, held_out)
        return {"estimated": {None: losses}, "given": {None: losses}}

    def story(self, outcomes: list[Outcome], folder: Path) -> Story:
        test = outcomes[0].case.test
        truth = np.mean([Partition.from_runs(labels).n_clusters for labels in test.labels])
        families = [
            replace(o, method=replace(o.method, name=o.method.options["family"]))
            for o in outcomes
            if o.name != OURS
        ]
        facts = {id(outcome): _facts(outcome) for outcome in families}
        best = [
            min(mine, key=lambda outcome: outcome.held_out())
            for mine in grouped(families, lambda outcome: outcome.name).values()
        ]
        ours = chosen(self, [outcome for outcome in best if outcome.is_ours])
        strengths = list(facts.values())
        text = page("paper_setting.md.j2", facts=strengths, truth=truth)
        (folder / "paper_setting.md").write_text(text, encoding="utf-8")
        told = {"best": [facts[id(outcome)] for outcome in best], "truth": truth}
        artifacts = Artifacts(
            feature_names={outcome.name: test.feature_names for outcome in best},
            notes=page("paper_setting.notes.j2", **told).splitlines(),
            **learned_metrics({outcome.name: outcome.models["estimated"] for outcome in best}),
        )
        protocol = (
            "Every setting is trained on the training sequences to the same certified gap, and "
            "scored on the test sequences. Its strength has the least loss on the validation "
            "sequences."
        )
        tables = tables_and_rows(self, [ours, *best])
        return Story(protocol, artifacts, tables, {"settings": strengths})


def _facts(outcome: Outcome) -> dict[str, Any]:
    """Collect what the table of ``paper_setting.md`` shows about one fit."""
    model = outcome.models["estimated"]
    segmentations = model.predict_change_points(outcome.case.test.sequences)
    return {
        "name": outcome.name,
        "strength": model.regularizer.strength,
        "penalty": model.penalty_,
        "objective": model.solution_.objective,
        "relative_gap": model.solution_.relative_gap,
        "weights": float(np.sum((model.components_ * model.scale_) ** 2)),
        "n_segments": [len(ends) for ends in segmentations],
        "validation": outcome.held_out(),
        "estimated": outcome.losses().tolist(),
        "given": outcome.losses("given").tolist(),
    }
