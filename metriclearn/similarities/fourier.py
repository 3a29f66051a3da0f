"""Random Fourier features of a learned Gaussian similarity, with the exact gradient."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from metriclearn.features.fourier import fourier_features
from metriclearn.similarities.operators import Scaled

__all__ = ["FourierOperator"]

_FLOOR = 1e-8  # of the largest: B^(1/2) has no derivative where an eigenvalue is 0


class FourierOperator(Scaled):
    """A = ΨΨᵀ with Ψ = Diag(r)Φ and Φ = [cos XΩᵀ, sin XΩᵀ]/√(D/2), Ω = √2 Ω₀B^(1/2).

    Parameters
    ----------
    X : array (S, P)
    components : array (r, P)
        Lᵀ with B = LLᵀ.
    root : array (S,)
    directions : array (D/2, P)
        Ω₀, standard normal.
    """

    def __init__(self, X: NDArray, components: NDArray, root: NDArray, directions: NDArray) -> None:
        self.root, self._X, self._directions = root, X, directions
        values, self._vectors = np.linalg.eigh(components.T @ components)
        floor = _FLOOR * max(float(values[-1]), 1e-300) ** 0.5
        self._values = np.maximum(np.sqrt(np.maximum(values, 0.0)), floor)
        self._square_root = (self._vectors * self._values) @ self._vectors.T
        omega = np.sqrt(2.0) * directions @ self._square_root
        phase = np.repeat([0.0, -0.5 * np.pi], len(omega))
        self._features = fourier_features(X, np.vstack([omega, omega]), phase)

    @cached_property
    def factors(self) -> NDArray:
        """Ψ, (S, D)."""
        return self.root[:, None] * self._features

    def rescaled(self, root: NDArray) -> FourierOperator:
        other = super().rescaled(root)
        other.__dict__.pop("factors", None)
        return other

    def restricted(self, kept: NDArray) -> FourierOperator:
        other = self.rescaled(self.root[kept])
        other._X, other._features = self._X[kept], self._features[kept]
        return other

    def matvec(self, V: NDArray) -> NDArray:
        return self.factors @ (self.factors.T @ V)

    def slope(self, factors: NDArray, signs: NDArray) -> NDArray:
        """Through ⟨A, H⟩ = Σ_c signs_c ‖Ψᵀf_c‖², the angles XΩᵀ, and B^(1/2)."""
        F, half = self.root[:, None] * factors, len(self._directions)
        sums = self._features.T @ F
        cosine, sine = self._features[:, :half], self._features[:, half:]
        by_angle = 2.0 * (cosine * ((F * signs) @ sums[half:].T))
        by_angle -= 2.0 * (sine * ((F * signs) @ sums[:half].T))
        by_root = np.sqrt(2.0) * (self._X.T @ by_angle) @ self._directions
        # B = S² gives dB = S dS + dS S: solved in the eigenbasis of S
        inner = self._vectors.T @ (0.5 * (by_root + by_root.T)) @ self._vectors
        inner /= self._values[:, None] + self._values
        return self._vectors @ inner @ self._vectors.T
