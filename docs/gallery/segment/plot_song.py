"""
Verse and refrain of a song
===========================

Sound becomes rows of spectral features, two per second. A metric learned from two songs with
labeled parts finds the parts of a third song and names them.
"""

from metriclearn import Segmenter
from metriclearn.datasets import load_example
from metriclearn.features import AudioFeatures
from metriclearn.plots import plot_timeline

extractor = AudioFeatures(rate=2)
songs = load_example("songs", extractor=extractor)
segmenter = Segmenter(extractor=extractor, verbose=False).fit(songs.select([0, 1]))

found = segmenter.segments(songs.sequences[2])
labels, ends = songs.labels[2], [*songs.change_points[2]]
truth = [(a / 2, b / 2, str(labels[a])) for a, b in zip([0, *ends], ends)]
title = f"A new song: {len(found)} parts found, {len(truth)} in truth"
figure = plot_timeline({"truth": truth, "found": found}, title=title)

# %%
# ``metriclearn fit FOLDER`` and ``metriclearn segment new.mp4`` do the same in the console, and
# write label tracks for Audacity and for video players.
