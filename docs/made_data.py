"""Make the horses and songs that the package ships: ``python docs/made_data.py``.

Horses are the silhouette of scikit-image (by Andreas Preuss, CC0), unchanged, mirrored or moved, in
the colors of a meadow. Songs have verses with a plucked melody and refrains with chords and a beat.
"""

from pathlib import Path

import numpy as np
import soundfile
from PIL import Image
from scipy.ndimage import gaussian_filter, zoom
from skimage.data import horse

SHIPPED = Path(__file__).resolve().parents[1] / "metriclearn/datasets/shipped"
RATE = 16000  # Hz


def photograph(mask: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A brown animal on a green meadow under a blue sky, in random light."""
    meadow = np.arange(len(mask))[:, None] > len(mask) * random.uniform(0.45, 0.6)
    meadow = np.broadcast_to(meadow, mask.shape)
    colors = np.where(meadow[..., None], [96, 148, 66], [150, 190, 225])
    colors = np.where(mask[..., None], [122, 78, 48], colors).astype(float)
    light = gaussian_filter(random.normal(size=mask.shape), 14)
    texture = gaussian_filter(random.normal(size=(*mask.shape, 1)), 1) * 70
    shown = colors * (1 + 0.25 * light / np.abs(light).max())[..., None] + texture
    return np.clip(gaussian_filter(shown, (0.7, 0.7, 0)), 0, 255).astype(np.uint8)


def horses() -> None:
    """Four photographs of 120 × 160 pixels, with their masks."""
    silhouette = zoom((~horse()).astype(float), 0.33, order=1) > 0.5
    rows, columns = silhouette.shape
    for place, (top, left, mirrored) in enumerate([(8, 20, 0), (10, 8, 1), (4, 26, 0), (9, 18, 1)]):
        random = np.random.default_rng(place)
        mask = np.zeros((120, 160), dtype=bool)
        mask[top : top + rows, left : left + columns] = silhouette[: 120 - top, : 160 - left]
        mask = mask[:, ::-1] if mirrored else mask
        folder = SHIPPED / "horses"
        Image.fromarray(photograph(mask, random)).save(folder / f"images/{place}.jpg", quality=92)
        Image.fromarray(mask).save(folder / f"masks/{place}.png", optimize=True)


def tone(frequency: float, n: int, decay: float) -> np.ndarray:
    """A decaying sound of six harmonics."""
    time = np.arange(n) / RATE
    return sum(np.sin(2 * np.pi * k * frequency * time) / k for k in range(1, 7)) * np.exp(
        -decay * time
    )


def part(label: str, seconds: float, random: np.random.Generator) -> np.ndarray:
    """A verse is a melody of quarter notes; a refrain is chords with a beat of noise."""
    beat = RATE // 2
    sound = []
    for _ in range(int(seconds * 2)):
        root = 110 * 2 ** (random.choice([0, 3, 5, 7, 10]) / 12)
        if label == "verse":
            sound.append(0.5 * tone(2 * root, beat, 5))
            continue
        chord = sum(tone(root * ratio, beat, 1) for ratio in (1, 1.26, 1.5)) / 3
        drum = random.normal(size=beat) * np.exp(-np.arange(beat) / RATE * 25)
        sound.append(0.5 * chord + 0.3 * drum)
    return np.concatenate(sound)


def songs() -> None:
    """Three songs of some 40 seconds, and the table of their parts."""
    lines = ["recording,start,end,label"]
    for place in range(3):
        random, sound, start = np.random.default_rng(place), [], 0.0
        for label in ["verse", "refrain"] * (2 + place % 2) + ["verse"]:
            seconds = float(random.integers(5, 11))
            sound.append(part(label, seconds, random))
            lines.append(f"song{place},{start:g},{start + seconds:g},{label}")
            start += seconds
        signal = np.concatenate(sound) + 0.01 * random.normal(size=int(start * RATE))
        file = SHIPPED / f"songs/audio/song{place}.ogg"
        soundfile.write(file, signal / np.abs(signal).max(), RATE, format="OGG", subtype="VORBIS")
    (SHIPPED / "songs/segments.csv").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    horses()
    songs()
