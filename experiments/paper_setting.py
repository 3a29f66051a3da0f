"""What fixing the price of a segment does: the paper's setting against a learned price.

The paper fixes penalty = 1 and loss_scale = 1. The price then cancels in loss-augmented inference,
(α − λ) Tr M = 0, and with noise the certified optimum has too few segments. Here every setting is
trained to the same certified gap on the synthetic data and scored on test data.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.comparison import Comparison, sequence_losses, synthetic_sequences
from experiments.procedure import Case, Losses, Method, Outcome, Story, grouped, pooled_rows
from experiments.report import Artifacts, learned_metrics, page
from metriclearn import Partition


class PaperSetting(Comparison):
    """The procedure: every setting at every strength is a method with nothing to choose.

    The rows of a setting are at its strength of least validation loss; all strengths stand in
    ``paper_setting.md``, with objective, gap and numbers of segments.
    """

    entries = "settings"
    each_candidate = True

    def cases(self) -> list[Case]:
        train, validation, test = synthetic_sequences(self.config, self.config.seed)
        return [Case("test", train, test, [(train, validation)])]

    def validate(self, method: Method, model: Any, train: Any, held_out: Any) -> Losses:
        losses = sequence_losses(model, held_out)
        return {"estimated": {None: losses}, "given": {None: losses}}

    def stories(self, outcomes: list[Outcome], folder: Path) -> list[Story]:
        test = outcomes[0].case.test
        truth = np.mean([Partition.from_runs(labels).n_clusters for labels in test.labels])
        outcomes = [
            replace(o, method=replace(o.method, name=o.method.options["family"])) for o in outcomes
        ]
        facts = [_facts(outcome) for outcome in outcomes]
        best = {
            name: min(mine, key=lambda pair: pair[1]["validation"])
            for name, mine in grouped(zip(outcomes, facts), lambda pair: pair[0].name).items()
        }
        text = page("paper_setting.md.j2", facts=facts, truth=truth)
        (folder / "paper_setting.md").write_text(text, encoding="utf-8")
        told = {"best": [fact for _, fact in best.values()], "truth": truth}
        models = {name: outcome.models["estimated"] for name, (outcome, _) in best.items()}
        artifacts = Artifacts(
            feature_names=test.feature_names,
            choices={
                name: f"strength {fact['strength']:g}, the one with the least validation loss; "
                f"certified gap {100 * fact['relative_gap']:.2g} %; training "
                f"objective {fact['objective']:.3g}."
                for name, (_, fact) in best.items()
            },
            notes=page("paper_setting.notes.j2", **told).splitlines(),
            **learned_metrics(models),
        )
        rows = pooled_rows([outcome for outcome, _ in best.values()])
        return [Story(rows, artifacts, {"settings": facts})]


def _facts(outcome: Outcome) -> dict[str, Any]:
    """What the table tells about one fit."""
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
