"""Values that users pass."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from metriclearn.running.values import real_array, whole
from tests.adversarial.callables import X


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.ma.array(X, mask=X > 1.0), "masked"),
        (X.astype("datetime64[D]"), "datetime64"),
        (X + 1j, "Complex"),
        ([[10**400, 1]] * 12, "too large"),
        (X.astype(str), "values of"),
    ],
)
def test_real_arrays_refuse_anything_else(values: Any, words: str) -> None:
    with pytest.raises(TypeError, match=f"^Learner needs .* real numbers in X.*{words}"):
        real_array("Learner", "X", values)


def test_whole_numbers_of_short_types_do_not_wrap_around() -> None:
    for value in (200, np.uint8(200), np.array(200, np.uint8)):
        assert type(whole(value)) is int
        assert whole(value) * 2 == 400
    for values in ([200], np.array([200], np.uint8), pd.Series([200], dtype="UInt8")):
        assert whole(values).dtype == np.int64
        assert (whole(values) * 2).tolist() == [400]
