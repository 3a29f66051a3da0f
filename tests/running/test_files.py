"""What is said of damaged files is said of nothing else."""

import errno

import pytest

from metriclearn.running.files import reading


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "Permission denied"),
        OSError(errno.EIO, "Input/output error"),
        NameError("name 'table' is not defined"),
        AttributeError("'NoneType' object has no attribute 'shape'"),
        ImportError("No module named 'zarr'"),
        MemoryError(),
        ValueError("'a.csv' needs one group per file."),
    ],
    ids=repr,
)
def test_errors_that_are_no_damage_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, reading("a.csv", "a table"):
        raise error
    assert raised.value is error
