"""MS-TCN: predict the names of rows by temporal convolutions, in stages that refine each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from experiments.rivals.row_networks import RowNetwork


@dataclass(eq=False, repr=False)
class MultiStageNetwork(RowNetwork):
    """A standard multi-stage temporal convolutional network, with early stopping.

    Every stage has ``n_layers`` residual layers of dilation 1, 2, 4, …. Training is that of
    :class:`~experiments.rivals.row_networks.RowNetwork`.

    Parameters
    ----------
    width : int
        Number of channels. With the defaults there are about 50,000 weights.
    n_stages, n_layers : int
    n_rounds, patience, random_state, learning_rate, decay
        As for ``RowNetwork``.

    References
    ----------
    Abu Farha & Gall, MS-TCN: multi-stage temporal convolutional network for action segmentation,
    CVPR 2019.
    """

    width: int = 32
    n_stages: int = 2
    n_layers: int = 6

    def network(self, n_features: int, n_classes: int) -> Any:
        """Make a list of stages, each of a first convolution, residual layers and a last
        convolution."""
        from torch import nn

        def stage(n_inputs: int) -> Any:
            layers = [
                nn.Sequential(
                    nn.Conv1d(self.width, self.width, 3, padding=2**i, dilation=2**i),
                    nn.ReLU(),
                    nn.Conv1d(self.width, self.width, 1),
                    nn.Dropout(0.3),
                )
                for i in range(self.n_layers)
            ]
            ends = nn.Conv1d(n_inputs, self.width, 1), nn.Conv1d(self.width, n_classes, 1)
            return nn.ModuleList([ends[0], nn.ModuleList(layers), ends[1]])

        later = (stage(n_classes) for _ in range(self.n_stages - 1))
        return nn.ModuleList([stage(n_features), *later])

    def outputs(self, network: Any, x: Any) -> list[Any]:
        """Compute the scores of the names after every stage, each (1, C, T), of rows (1, P, T)."""
        outputs: list[Any] = []
        for first, layers, last in network:
            h = first(outputs[-1].softmax(dim=1) if outputs else x)
            for layer in layers:
                h = h + layer(h)
            outputs.append(last(h))
        return outputs
