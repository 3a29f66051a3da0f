"""A linear-chain conditional random field, from python-crfsuite."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments.rivals.windows import Arrays, RowNames, coded


@dataclass(eq=False, repr=False)
class ConditionalRandomField(RowNames):
    """Predict names by a linear-chain conditional random field on principal components of the rows.

    Attributes of a row are its first components and those of both neighbors.

    Parameters
    ----------
    n_components : int
    strength : float
        Strength of the penalty on the squared norm of all weights.
    max_rounds : int
        Largest number of rounds of L-BFGS.

    References
    ----------
    Lafferty, McCallum & Pereira, Conditional random fields, ICML 2001. Okazaki, CRFsuite: a fast
    implementation of conditional random fields, 2007.
    """

    n_components: int = 16
    strength: float = 1.0
    max_rounds: int = 60

    def fit(self, X: Arrays, y: Arrays) -> Self:
        """Maximize the regularized likelihood of the names."""
        import pycrfsuite

        rows = np.vstack(X)
        count = min(self.n_components, rows.shape[1], len(rows))
        self.columns_ = make_pipeline(StandardScaler(), PCA(count, random_state=0)).fit(rows)
        self.classes_, codes = coded(y)
        trainer = pycrfsuite.Trainer(verbose=False)
        trainer.set_params({"c1": 0.0, "c2": self.strength, "max_iterations": self.max_rounds})
        for x, code in zip(X, codes):
            trainer.append(self._attributes(x), code.astype(str).tolist())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "field"
            trainer.train(str(path))
            self.field_ = path.read_bytes()
        return self

    def predict(self, X: Arrays) -> list[NDArray]:
        """Return the most probable names, in O(T C²) for T rows and C names."""
        import pycrfsuite

        tagger = pycrfsuite.Tagger()
        tagger.open_inmemory(self.field_)
        return [self.classes_[np.array(tagger.tag(self._attributes(x)), dtype=int)] for x in X]

    def _attributes(self, x: NDArray) -> Any:
        import pycrfsuite

        Z = self.columns_.transform(x)
        around = np.hstack([Z, np.vstack([Z[:1], Z[:-1]]), np.vstack([Z[1:], Z[-1:]])])
        names = [f"{place}{i}" for place in "=<>" for i in range(Z.shape[1])]
        return pycrfsuite.ItemSequence([dict(zip(names, row)) for row in around.tolist()])
