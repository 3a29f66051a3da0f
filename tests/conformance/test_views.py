"""Every view: chunks, reach, copies, files, held-out training rows, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis as LDA
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import metriclearn as ml
from metriclearn import baselines, views
from metriclearn.views import Chain, Fill, Labels, LeaveOut, Neighbors, OwnScale, Posteriors, Union
from metriclearn.views.hermite import hermite_functions
from tests.sentences import Rows, assert_refused, every_row

RANDOM = np.random.default_rng(0)
NAMES = [np.repeat(RANDOM.permutation(3), RANDOM.integers(12, 20, 3)) for _ in range(6)]
X = [np.cumsum(RANDOM.normal(size=(len(y), 3)), axis=0) / 3 + 2.0 * y[:, None] for y in NAMES]
GROUPS = np.repeat([0, 1, 2], 2)
LABELS = Labels([ml.Partition.from_runs(y) for y in NAMES], NAMES, np.array(["a", "b", "c"]))
LOGISTIC = LogisticRegression(C=0.1)
# Name of a row of the table -> the view
VIEWS: dict[str, Any] = {
    "Columns": views.Columns(1, 3),
    "Convolutions": views.Convolutions(8, 3),
    "Details": views.Details(3),
    "Each": views.Each(PCA(2)),
    "Eigenmaps": views.Eigenmaps(5, 2),
    "ExpectedBoundaries": views.ExpectedBoundaries(LOGISTIC, n_folds=3),
    "ExpectedBoundaries in a running scale": Chain(
        [OwnScale(9), views.ExpectedBoundaries(LOGISTIC, n_folds=3)]
    ),
    "Fill": Fill(),
    "Fill, short gaps": Fill(longest=3),
    "HermiteMoments": views.HermiteMoments(2),
    "HermiteMoments, fixed scale": views.HermiteMoments(2, scale=2.0),
    "LeaveOut": LeaveOut(),
    "rows without values left out": LeaveOut(fill=True),
    "Metric": views.Metric(baselines.PrincipalComponents(2)),
    "Neighbors": Neighbors(3),
    "OwnScale": OwnScale(),
    "OwnScale of a window": OwnScale(4),
    "Posteriors": Posteriors(LOGISTIC, context=2, n_folds=3),
    "Posteriors that memorize": Posteriors(
        DecisionTreeClassifier(random_state=0), context=0, n_folds=3
    ),
    "RandomFourierFeatures": views.RandomFourierFeatures(4, random_state=0),
    "SlidingMoments": views.SlidingMoments(3),
    "SlidingMoments, scaled": views.SlidingMoments(3, scale="noise"),
    "SoftThresholds": views.SoftThresholds((0.0, 1.0)),
    "Whiten": views.Whiten(),
    "Whiten, total": views.Whiten(0.5, 2, 1.0),
    "Windows": views.Windows((1, 4)),
    "Windows with sides": views.Windows((1, 4), sides=True),
    "whitening behind gaps": Chain([LeaveOut(), views.Whiten()]),
    "posteriors over filled gaps": Chain([Fill(3), Posteriors(LOGISTIC, context=2, n_folds=3)]),
    "windows in one's own scale": Chain([OwnScale(), views.Windows((2, 5))]),
    "windows of details": Chain([views.Details(2), views.Windows((3,))]),
    "windows of windows": Chain([views.Windows((1,)), Neighbors(2)]),
    "columns, then whitened": Chain([views.Columns(0, 2), views.Whiten()]),
    "posteriors and columns": Union([Posteriors(LOGISTIC, 2, 3), views.Columns(0, 2)]),
    "two linear views": Union([views.Whiten(), views.Columns(0, 2)]),
    "rows left out twice": Chain([LeaveOut(), LeaveOut()]),
    "known rows twice": Union([LeaveOut(), Chain([LeaveOut(), views.Columns(0, 1)])]),
}
if find_spec("torch"):
    NETWORK = partial(ml.encoders.WindowEncoder, n_outputs=2, width=4)
    VIEWS["Encoder"] = ml.encoders.Encoder(NETWORK, n_epochs=2, random_state=0, verbose=False)
# Views that name their columns
PANDAS = (
    *(views.Each, views.HermiteMoments, OwnScale, views.RandomFourierFeatures),
    *(views.SlidingMoments, views.SoftThresholds),
)
EACH = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)


def reads_gaps(view: Any) -> bool:
    return any(isinstance(part, (Fill, LeaveOut)) for part in [view, *getattr(view, "views", [])])


def data_of(view: Any) -> list[NDArray]:
    """Recordings, with gaps of at most three rows for views that read gaps."""
    arrays = [x.copy() for x in X]
    for x in arrays if reads_gaps(view) or "known" in str(view) else ():
        x[5:8, 0] = x[20, 1] = x[-1, 2] = np.nan
    return arrays


def fitted(view: Any) -> Any:
    return clone(view).fit(data_of(view), LABELS, GROUPS)


def increases(view: Any, rows: NDArray) -> NDArray:
    """Rows, or the increases of running sums, which alone depend on the rows in reach."""
    return np.diff(rows, axis=0, prepend=0.0) if getattr(view, "running", False) else rows


def kept(view: Any, x: NDArray) -> NDArray:
    return view.kept([x])[0] if hasattr(view, "kept") else np.arange(len(x))


def test_signals_in_a_list_are_recordings_of_one_column() -> None:
    """As learners read them; a list of lists is one table."""
    signals, columns = [x[:, 0] for x in X], [x[:, :1] for x in X]
    for view in (OwnScale(), Chain([Fill(), OwnScale()]), views.Each(PCA(1))):
        for rows, expected in zip(view.fit_transform(signals), view.fit_transform(columns)):
            np.testing.assert_array_equal(rows, expected)
    assert OwnScale().fit_transform([[1.0, 2.0], [3.0, 4.0]]).shape == (2, 2)


@EACH
def test_lists_of_recordings_stay_lists_where_scikit_learn_gives_data_frames(view: Any) -> None:
    rows = clone(view).fit_transform(data_of(view), LABELS, GROUPS)
    with config_context(transform_output="pandas"):
        found = clone(view).fit_transform(data_of(view), LABELS, GROUPS)
        one = fitted(view).transform(data_of(view)[0])
    assert isinstance(found, list)
    assert hasattr(one, "columns") == isinstance(view, PANDAS)
    for some, expected in zip(found, rows):
        np.testing.assert_array_equal(some, expected)


@EACH
def test_chunks_with_the_rows_in_reach_give_the_rows_of_the_batch(view: Any) -> None:
    view = fitted(view)
    x = data_of(view)[0]
    batch, places = increases(view, view.transform(x)), kept(view, x)
    assert len(batch) == len(places)
    if view.reach is None:
        return
    before, after = view.reach
    for start in range(0, len(x), 9):
        low, stop = max(0, start - before), min(len(x), start + 9)
        chunk = x[low : min(len(x), stop + after)]
        rows, numbers = increases(view, view.transform(chunk)), kept(view, chunk) + low
        here, there = (start <= numbers) & (numbers < stop), (start <= places) & (places < stop)
        np.testing.assert_array_equal(numbers[here], places[there])
        single = 1e6 if hasattr(view, "network_") else 1.0  # in single precision
        close = {"rtol": 1e-9 * single, "atol": 1e-12 * single}
        np.testing.assert_allclose(rows[here], batch[there], **close)


@EACH
def test_a_changed_row_changes_the_rows_in_reach_and_no_others(view: Any) -> None:
    view = fitted(view)
    x = data_of(view)[0]
    other, t = x.copy(), 26
    other[t] += 50.0
    places = kept(view, x)
    rows, changed = (increases(view, view.transform(one)) for one in (x, other))
    touched = places[(rows != changed).any(axis=1)]
    assert len(touched)
    if view.reach is None:
        assert np.abs(touched - t).max() > 8 or isinstance(view, Fill | LeaveOut)
        return
    before, after = view.reach
    assert t - after <= touched.min()
    assert touched.max() <= t + before
    sums = getattr(view, "running", False)  # which round small increases away
    if not reads_gaps(view) and not isinstance(view, views.SlidingMoments) and not sums:
        assert (touched.min(), touched.max()) == (t - after, t + before)


@EACH
def test_a_copy_a_file_and_a_second_fit_give_the_same_rows(view: Any, tmp_path: Path) -> None:
    first, arrays = fitted(view), data_of(view)
    before = [x.copy() for x in arrays]
    expected = first.transform(arrays)
    again = clone(first)
    assert not [name for name in vars(again) if name.endswith("_")]
    assert again.get_params().keys() == first.get_params().keys()
    loaded = ml.load(ml.save(first, tmp_path / "view.npz"))
    for same in (again.fit(arrays, LABELS, GROUPS), loaded, first.fit(arrays, LABELS, GROUPS)):
        for rows, theirs in zip(same.transform(arrays), expected, strict=True):
            np.testing.assert_array_equal(rows, theirs)
    np.testing.assert_array_equal(first.transform(arrays[0]), expected[0])  # a single recording
    for x, untouched in zip(arrays, before):
        np.testing.assert_array_equal(x, untouched)


def share_told(view: Any, arrays: list[NDArray]) -> float:
    """The share of the variance of random labels that training rows explain, by least squares."""
    random = np.random.default_rng(1)
    codes = [random.integers(0, 3, len(x)) for x in arrays]
    labels = Labels([ml.Partition.from_runs(y) for y in codes], codes, LABELS.classes)
    view = clone(view)
    rows = np.vstack([increases(view, one) for one in view.fit_transform(arrays, labels, GROUPS)])
    told = np.concatenate([y[kept(view, x)] for x, y in zip(arrays, codes)])
    told = np.column_stack([told[:, None] == range(3), told != np.roll(told, 1)])
    rows, told = rows - rows.mean(axis=0), told - told.mean(axis=0)
    rest = told - rows @ np.linalg.lstsq(rows, told)[0]
    return 1.0 - (np.sum(rest**2, axis=0) / np.sum(told**2, axis=0)).min()


@EACH
def test_training_rows_are_those_of_new_recordings_or_held_out(view: Any) -> None:
    """The labels of a group leave its own rows as they are, and change those of other groups.

    Rows of a view that holds nothing out do not tell labels that are noise.
    """
    arrays, labels = data_of(view), LABELS
    rows = clone(view).fit_transform(arrays, LABELS, GROUPS)
    new = fitted(view).transform(arrays)
    if not getattr(view, "held_out", False):
        assert all(np.array_equal(a, b) for a, b in zip(rows, new))
        assert share_told(view, arrays) < 0.03 + 3.0 * new[0].shape[1] / sum(map(len, new))
        return
    assert not all(np.array_equal(a, b) for a, b in zip(rows, new))
    codes = [y[::-1] if g == 1 else y for y, g in zip(NAMES, GROUPS)]
    labels = Labels([ml.Partition.from_runs(y) for y in codes], codes, LABELS.classes)
    other = clone(view).fit_transform(arrays, labels, GROUPS)
    same = [np.array_equal(a, b) for a, b in zip(rows, other)]
    assert same == (GROUPS == 1).tolist()


@EACH
def test_one_sentence_for_what_no_view_can_use(view: Any) -> None:
    bad = [([], "empty list"), ([["a"]], "real numbers"), (X[0][:, 0], "dimension"), (None, "X")]
    for arrays, words in [*bad, ([np.where(X[0] > 3, np.inf, X[0])], "got inf")]:
        with pytest.raises((ValueError, TypeError), match=words) as raised:
            clone(view).fit(arrays, LABELS)
        assert str(raised.value).count(". ") <= 1
    with pytest.raises(ValueError, match="not fitted"):
        clone(view).transform(X)
    with pytest.raises(ValueError, match=r"has 2 features, but \w+ is expecting 3"):
        fitted(view).transform([x[:, :2] for x in X])


NAN, LONG = [np.full((3, 1), np.nan)], [np.array([[0.0], [np.nan], [np.nan], [1.0]])]
CONSTANT, POSITIVE = [x * 0 for x in X], "a metric that is a positive semi-definite .3, 3. matrix"
AT_LEAST_ONE = [ml.PartialPartition(len(X[0]), regions=[(0, 20, ml.problem.AT_LEAST_ONE)])]
REFUSED: Rows = [
    (partial(views.Columns(1, 4).fit, X), "Columns needs start < stop ≤ 3 columns, got 1 and 4"),
    (
        partial(views.Each(PCA(2)).fit, [x * 1e200 for x in X]),
        "Each needs squared distances below 1e300, got values up to",
    ),
    (partial(views.Each(LDA()).fit, X, LABELS), "transformer that learns without labels"),
    (partial(views.Windows().fit_transform, [x * 1e160 for x in X]), "distances below 1e300"),
    (partial(LeaveOut().fit, NAN), "in recording 0 column 0 is NaN in every row; drop this col"),
    (partial(Fill().fit, NAN), "Fill needs a number in .* column 0 of recording 0 has none"),
    (partial(Fill(1).fit, LONG), "Fill needs gaps of at most longest=1 rows, got one of 2 in rec"),
    (partial(OwnScale().fit, NAN), "OwnScale needs finite numbers, got NaN at row 0"),
    (partial(views.Whiten().fit, X, NAMES), "Whiten learns from labels .* Labels, got list; pass"),
    (partial(views.Whiten().fit, X[:1], LABELS), "Whiten needs one labeling for each"),
    (partial(Posteriors().fit, X, Labels(LABELS.partitions)), "names of the rows, got labels that"),
    (
        partial(Posteriors().fit, X, Labels(LABELS.partitions, [y * 0 for y in NAMES], NAMES[0])),
        "Posteriors needs samples of two names and more, got fewer",
    ),
    (
        partial(
            views.ExpectedBoundaries().fit,
            X[:1],
            Labels([ml.Partition.from_runs(np.zeros(len(X[0])))]),
        ),
        "ExpectedBoundaries needs a labeled boundary, got none",
    ),
    (partial(views.Whiten().fit, CONSTANT, LABELS), "Whiten needs features that vary within some"),
    (
        partial(views.Whiten().fit, X[:1], Labels(AT_LEAST_ONE)),
        "Whiten needs stretches whose segments are known, got only regions",
    ),
    (
        lambda: Chain([LeaveOut(), Neighbors(1)]).fit(X),
        r"Chain needs views of single rows behind LeaveOut\(\), which leaves rows out, but "
        r"Neighbors\(context=1\) would read across gaps; take Fill, or put this view first",
    ),
    (lambda: Chain([LeaveOut(), OwnScale()]).fit(X), r"OwnScale\(\) would read across gaps"),
    (lambda: views.SlidingMoments(2).fit(X), "needs an odd window of at least 1 sample, got 2"),
    *(
        (partial(views.RandomFourierFeatures(metric=metric).fit, X), POSITIVE)
        for metric in (np.eye(2), [1.0, -1.0, 0.0])
    ),
    (partial(hermite_functions, 0.0, 0), "needs a whole n_functions of at least 1, got 0"),
    (partial(hermite_functions, [np.nan], 2), "needs finite numbers, got NaN at row 0 of x"),
]


@every_row({"view": REFUSED})
def test_refused_in_one_sentence(call: Callable[[], Any], sentence: str) -> None:
    with assert_refused(sentence) as raised:
        call()
    assert str(raised.value).count(". ") == 0


def test_the_table_has_all_views() -> None:
    tested = {
        type(part).__name__
        for view in VIEWS.values()
        for part in [view, *getattr(view, "views", [])]
    }
    others = {"BoundaryFeatures", "SequenceFeatures", "Labels", "PlainView", "View"}
    public = {name for name in dir(views) if name[0].isupper()} - others
    assert tested - {"Encoder"} == public
