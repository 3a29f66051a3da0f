"""Find the cuts in the videos of ``experiment=video`` with PySceneDetect's detectors.

    python -m experiments.benchmarks.shot_detectors outputs/data/videos [--out FILE]

The command does not import this project. Run this command in a separate environment, made by ``pip
install scenedetect-headless==0.7.2``. The output is committed, and ``python -m
experiments.benchmarks.stored_recordings`` compares it with learned metrics. By default the
detectors find no shot of less than 15 frames. At 25 frames per second, 15 frames last 0.6 s. The
videos here have only 5 frames per second. So when we try thresholds, we let the shortest shot last
0.6 s.
"""

from __future__ import annotations

import argparse
import json
from importlib.util import find_spec
from pathlib import Path

DETECTORS = {  # their thresholds, the installed one first
    "ContentDetector": ("threshold", (27.0, 10.0, 15.0, 20.0, 35.0, 45.0, 60.0)),
    "AdaptiveDetector": ("adaptive_threshold", (3.0, 1.5, 2.0, 2.5, 4.0, 6.0, 10.0)),
}


def main() -> None:
    """Write the number of the first frame of each shot, for every detector, setting and video. The
    first shot of a video is left out."""
    parser = argparse.ArgumentParser(description="Detectors of PySceneDetect on videos.")
    parser.add_argument("folder", type=Path, help="with a folder of MP4 files for each part")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "shot_detectors.json")
    options = parser.parse_args()
    if find_spec("scenedetect") is None:
        print("scenedetect is not installed; the head of this file says how to.")
        return
    import scenedetect

    found: dict[str, dict[str, dict[str, list[int]]]] = {}
    for name, (parameter, thresholds) in DETECTORS.items():
        settings: dict[str, dict] = {"as installed": {}}
        settings |= {f"{t:g}": {parameter: t, "min_scene_len": "0.6s"} for t in thresholds}
        found[name] = {setting: {} for setting in settings}
        for video in sorted(options.folder.glob("*/*.mp4")):
            for setting, values in settings.items():
                detector = getattr(scenedetect, name)(**values)
                shots = scenedetect.detect(str(video), detector, start_in_scene=True)
                cuts = [int(start.frame_num) for start, _ in shots[1:]]
                found[name][setting][video.stem] = cuts
            print(name, video.stem, flush=True)
    options.out.write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
