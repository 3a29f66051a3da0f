"""
A horse
=======

Which colors and textures make two pieces of a picture alike? We learn the similarity from pictures
with masks. Normalized cuts then divide a new picture.
"""

from metriclearn import FullMetric, NormalizedCutMetricLearner, Trace
from metriclearn.datasets import load_example
from metriclearn.features.media.image import Color, ImageFeatures, Position, Superpixels
from metriclearn.indices import adjusted_rand_score
from metriclearn.plots import plot_image_segmentations
from metriclearn.similarities import GaussianSimilarity

horses = load_example("horses")
features = ImageFeatures(Superpixels(150), (Color(), Position()))
learner = NormalizedCutMetricLearner(
    FullMetric(), Trace(0.01), features=features, similarity=GaussianSimilarity()
).fit(horses.images[:2], horses.labels[:2])

new, masks = horses.images[2:], horses.labels[2:]
found = [learner.predict_labels_image(image, n_clusters=2) for image in new]
scores = [
    f"adjusted Rand index {adjusted_rand_score(a.ravel(), b.ravel()):.2f}"
    for a, b in zip(masks, found)
]
figure = plot_image_segmentations(
    new,
    {"by hand": masks, "found": found},
    captions={"found": scores},
    title="Pictures that were not learned from",
)
