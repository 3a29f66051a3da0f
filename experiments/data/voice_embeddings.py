"""Features of voices: outputs of a pretrained network that distinguishes speakers.

The package resemblyzer ships its weights (L. Wan et al., Generalized end-to-end loss for speaker
verification, ICASSP 2018). The weights are loaded without executing code from their file.
"""

from __future__ import annotations

from pathlib import Path

import librosa
import resemblyzer
import torch

from metriclearn.encoders import FrozenFeatures
from metriclearn.features.media.audio import SoundWindows

WINDOW = 25600  # samples at 16 kHz, the 1.6 s on which the network was trained


class Voices(torch.nn.Module):
    """Maps windows of sound (n, 25600) at 16 kHz to embeddings (n, 256)."""

    def __init__(self) -> None:
        super().__init__()
        self.network = resemblyzer.VoiceEncoder("cpu", verbose=False)
        weights = Path(resemblyzer.__file__).parent / "pretrained.pt"
        state = torch.load(weights, weights_only=True, map_location="cpu")["model_state"]
        self.network.load_state_dict(state, strict=False)
        self.bands = torch.as_tensor(librosa.filters.mel(sr=16000, n_fft=400, n_mels=40))

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        window = torch.hann_window(400)
        waves = torch.stft(sound, 400, 160, window=window, return_complex=True)
        return self.network((self.bands @ waves.abs() ** 2).mT[:, :160])


def voice_windows(rate: float) -> SoundWindows:
    """Make an extractor of voice embeddings, with ``rate`` embeddings per second."""
    return SoundWindows(FrozenFeatures(Voices(), (WINDOW,)), rate=rate)
