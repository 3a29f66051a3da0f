"""Import claspy, and compile it, so that no fit is charged with that."""

import numpy as np
from claspy.segmentation import BinaryClaSPSegmentation

_RHYTHMS = np.sin(np.arange(150.0) / np.repeat([2.0, 5.0], 75))[:, None]
BinaryClaSPSegmentation(n_jobs=1).fit_predict(_RHYTHMS)
