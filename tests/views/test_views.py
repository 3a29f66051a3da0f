"""What views compute, by definition; labels and answers around rows that are left out."""

from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import metriclearn as ml
from metriclearn import views
from metriclearn.baselines import RelevantComponents
from metriclearn.datasets import make_change_points
from metriclearn.views.gaps import borders, placed

DATA = make_change_points(5, 120, 4, 2, (4, 6), random_state=0)
LABELS = views.Labels([ml.Partition.from_runs(y) for y in DATA.labels])


def test_own_scale_removes_unit_and_offset() -> None:
    X = np.random.default_rng(0).normal(5.0, [1.0, 30.0, 1.0], (50, 3))
    X[:, 2] = 0.1  # constant
    first, second = views.OwnScale().fit_transform([X, 7.0 * X + 3.0])
    np.testing.assert_allclose(first[:, :2].std(axis=0), 1.0)
    np.testing.assert_array_equal(first[:, 2], 0.0)
    np.testing.assert_allclose(first, second, atol=1e-12)
    for unit in (1e-300, 1e-25, 1e250):
        for view in (views.OwnScale(), views.OwnScale(4)):
            now, before = view.fit_transform([X * unit, X])
            np.testing.assert_allclose(now, before, atol=1e-9)


def test_own_scale_of_a_window_is_that_of_the_rows_up_to_the_present_one() -> None:
    X = np.random.default_rng(0).normal(5.0, [1.0, 30.0, 1.0], (20, 3))
    X[:, 2] = 0.1  # constant
    (rows,) = views.OwnScale(4).fit_transform([X])
    np.testing.assert_array_equal(rows[0], 0.0)
    for t in range(1, 20):
        window = X[max(0, t - 3) : t + 1, :2]
        expected = (X[t, :2] - window.mean(axis=0)) / window.std(axis=0)
        np.testing.assert_allclose(rows[t], [*expected, 0.0], atol=1e-9)


@pytest.mark.parametrize("T", [1, 2, 5, 40])
def test_details_by_their_definition(T: int) -> None:
    X = np.random.default_rng(T).normal(size=(T, 2)) + 1e3
    (rows,) = views.Details(4).fit_transform([X])
    padded = np.concatenate([np.repeat(X[:1], 16, axis=0), X])  # copies of the first row
    for t in range(T):
        now = [padded[16 + t - n + 1 : 17 + t].mean(axis=0) for n in (1, 2, 4, 8)]
        past = [padded[16 + t - 2 * n + 1 : 17 + t - n].mean(axis=0) for n in (1, 2, 4, 8)]
        expected = (np.concatenate(now) - np.concatenate(past)) / 2
        np.testing.assert_allclose(rows[t], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("m", "longest", "quarter", "fortieth"),
    [
        (4, 1, 3, 5),
        (15, 1, 5, 5),
        (16, 2, 5, 5),
        (33, 4, 9, 5),
        (90, 8, 23, 5),
        (4000, 64, 1025, 91),
    ],
)
def test_labels_tell_the_rows_of_a_window(m, longest, quarter, fortieth) -> None:
    """Of the longest details, convolutions and eigenmaps, to powers of 2, of √2 if odd, of √2."""
    X, truth = [np.zeros((3 * m, 1))], ml.Partition.from_runs(np.repeat(range(3), m))
    details, convolutions, eigenmaps = (
        view.fit(X, views.Labels([truth]))
        for view in (views.Details(), views.Convolutions(), views.Eigenmaps())
    )
    assert 2 ** (details.levels_ - 1) == longest
    assert (convolutions.window_, eigenmaps.window_) == (quarter, fortieth)


@pytest.mark.parametrize(
    ("T", "P", "window", "dilations"),
    [(1, 1, 2, [1]), (40, 3, 8, [1]), (40, 5, 9, [1, 2]), (300, 1, 33, [1, 2, 4, 8])],
)
def test_convolutions_by_their_definition(T, P, window, dilations) -> None:
    X, h = np.random.default_rng(T).normal(size=(T, P)), window // 2
    (rows,) = views.Convolutions(window, 4).fit_transform([X])
    kernels = [np.isin(range(9), some) * 3.0 - 1 for some in combinations(range(9), 3)]
    shares = []
    for j, dilation in enumerate(dilations):
        for k, kernel in enumerate(kernels):
            column = X[:, (84 * j + k) % P]
            places = [np.clip(t + dilation * np.arange(-4, 5), 0, T - 1) for t in range(T)]
            responses = np.array([kernel @ column[place] for place in places])
            rank = int((84 * j + k) * (5**0.5 - 1) / 2 % 1 * T)
            large = responses > np.sort(responses)[rank] + 1e-9 * np.abs(column).max()
            shares.append([large[max(t - h, 0) : t + h + 1].mean() for t in range(T)])
    centered = np.array(shares).T - np.mean(shares, axis=1)
    values, vectors = np.linalg.eigh(centered.T @ centered / T)
    expected = centered @ vectors[:, :-5:-1] / (np.sqrt(values[-1]) if T > 1 else 1.0)
    np.testing.assert_allclose(np.abs(rows), np.abs(expected), atol=1e-6)


def test_blocks_of_rows_leave_convolutions_as_they_are(monkeypatch) -> None:
    """Of a recording of which every third row gives the components."""
    X = np.random.default_rng(0).normal(size=(17_000, 1))
    view = views.Convolutions(9, 2).fit([X])
    rows = view.transform([X])[0]
    monkeypatch.setattr("metriclearn.views.convolutions._BLOCK", len(X))
    np.testing.assert_allclose(view.transform([X])[0], rows, atol=1e-9)


def test_convolutions_see_no_levels_and_no_unit() -> None:
    rng = np.random.default_rng(0)
    levels = np.repeat(rng.normal(size=3), 5000)[:, None]  # more rows than are read at a time
    (rows,) = views.Convolutions(50).fit_transform([levels])
    far = np.abs(np.arange(15000) % 5000 - 2500) < 2400  # from changes
    assert np.ptp(rows[far], axis=0).max() < 1e-9
    X = rng.normal(size=(9000, 2))
    view = views.Convolutions(50).fit([X])
    for unit in (2.0**40, [1.0, 2.0**40]):
        np.testing.assert_array_equal(view.transform([X])[0], view.transform([X * unit])[0])
    (zero,) = view.transform([np.full((60, 2), 1.1)])
    assert not zero.any()


@pytest.mark.parametrize(
    ("T", "P", "window", "k", "step"),
    [(60, 1, 6, 2, 1), (80, 2, 9, 3, 1), (2100, 1, 41, 3, 2)],
)
def test_eigenmaps_by_their_definition(T, P, window, k, step) -> None:
    """Of every ``step``-th stretch, if there are more than 2048."""
    X, lag = np.random.default_rng(T).normal(size=(T, P)), window // 2 // step
    (rows,) = views.Eigenmaps(window, 4, k).fit_transform([X])
    stretches = np.array([X[t : t + window] for t in range(0, T - window + 1, step)])
    shapes = (stretches - stretches.mean(axis=1)[:, None]) / stretches.std(axis=1)[:, None]
    graph = np.diag(np.full(len(shapes) - 1, (2.0 * window / step) ** 2), 1)
    for t, shape in enumerate(shapes):
        far = ((shapes - shape) ** 2).sum(axis=(1, 2))
        far[max(t - lag, 0) : t + lag + 1] = np.inf
        graph[t, np.argsort(far)[:k]] += 1
    graph += graph.T
    scale = graph.sum(axis=1, keepdims=True) ** -0.5
    expected = np.abs(scale * np.linalg.eigh(scale * graph * scale.T)[1][:, -2:-6:-1])
    middle = rows[(window - 1) // 2 + step * np.arange(len(shapes))]
    if window % 2:  # else rows are means of two stretches
        np.testing.assert_allclose(np.abs(middle), expected, atol=2e-3 * expected.max())
        assert np.ptp(rows[: window // 2], axis=0).max() == 0
    assert np.linalg.matrix_rank(np.column_stack([middle, np.ones(len(middle))])) == 5


def test_eigenmaps_see_patterns_but_no_levels_and_no_unit() -> None:
    t, rng = np.arange(600), np.random.default_rng(0)
    signal = np.where(t < 250, np.sin(t / 3), np.abs(np.sin(t / 6)))[:, None]
    X = signal + rng.normal(scale=0.05, size=(600, 1))
    view = views.Eigenmaps(20, 1).fit([X])
    (rows,) = view.transform([X])
    assert ((rows - rows.mean()) * np.where(t < 250, 1, -1)[:, None] * rows[0] > 0).mean() > 0.97
    for same in (2.0**40 * X, -(2.0**-40) * X, X + np.where(t < 300, 0.0, 2.0**-30)[:, None]):
        np.testing.assert_allclose(view.transform([same])[0], rows, atol=1e-6)
    for nothing in (np.full((600, 1), 1.1), X[:4], X[:1]):
        assert not view.transform([nothing])[0].any()
    long = np.repeat(signal, 20, axis=0) + rng.normal(scale=0.05, size=(12000, 1))
    (rows,) = views.Eigenmaps(400, 1).fit_transform([long])  # of some stretches
    assert ((rows - rows.mean())[:4500] * rows[0] > 0).all()
    assert ((rows - rows.mean())[5500:] * rows[0] < 0).all()


@pytest.mark.parametrize("T", [5, 6, 7, 8, 9, 12, 20, 23, 60])
@pytest.mark.parametrize("window", [2, 5, 20])
def test_eigenmaps_of_short_recordings_have_as_many_vectors_as_there_are(T, window) -> None:
    X = np.random.default_rng(T).normal(size=(T, 2))
    (rows,) = views.Eigenmaps(window, 8, 3).fit_transform([X])
    stretches = T - min(window, max(T // 4, 2)) + 1
    assert np.ptp(rows, axis=0).astype(bool).tolist() == [j < stretches - 1 for j in range(8)]


def test_views_with_equal_keys_share_the_rows_of_a_recording() -> None:
    seen = []

    class Counted(views.OwnScale):
        rows_key = "counted"

        def rows(self, X):
            seen.append(len(X))
            return super().rows(X)

    X, known = [np.random.default_rng(T).normal(size=(T, 2)) for T in (30, 40)], {}
    for window in (3, 5):
        chain = views.Chain([Counted(), views.Windows((window,))])
        alone = chain.fit(X).transform(X)
        seen.clear()
        shared = chain.fit(X, known=known).transform(X, known)
        assert seen == ([30, 40] if window == 3 else [])
        for a, b in zip(alone, shared):
            np.testing.assert_array_equal(a, b)


def test_views_share_rows_only_if_all_their_parameters_are_equal() -> None:
    class Shifted(views.Eigenmaps):
        def __init__(self, state="same", shift=0.0):
            super().__init__(5, 2)
            self.state, self.shift = state, shift

        def rows(self, X):
            return super().rows(X) + self.shift

    class Plain(views.PlainView):
        def __init__(self, state="same", shift=0.0):
            self.state, self.shift = state, shift

        def rows(self, X):
            return X + self.shift

    X = [np.random.default_rng(0).normal(size=(30, 2))]
    for view in Shifted, Plain:
        known = {}
        first, second = (
            views.Chain([view(shift=shift), views.Columns(0, 1)]).fit(X, known=known)
            for shift in (0.0, 1.0)
        )
        moved = second.transform(X, known)[0] - first.transform(X, known)[0]
        np.testing.assert_allclose(moved, 1.0)


@pytest.mark.parametrize("T", [1, 2, 5, 40])
@pytest.mark.parametrize("sides", [False, True])
def test_windows_by_their_definition(T: int, sides: bool) -> None:
    X = np.random.default_rng(T).normal(size=(T, 2)) + 1e6
    (rows,) = views.Windows((1, 6), sides=sides).fit_transform([X])
    Z = (X - X.mean(axis=0)) / (X.std(axis=0) + (T == 1))
    for t in range(T):
        expected = [Z[t]]
        for h in (1, 6):
            window = Z[max(0, t - h) : t + h + 1]
            expected += [window.mean(axis=0), np.log(window.std(axis=0) + 0.01)]
            if sides:
                before = Z[max(0, t - 2 * h - 1) : max(t, 1)]
                expected += [before.mean(axis=0), Z[t : t + 2 * h + 1].mean(axis=0)]
        np.testing.assert_allclose(rows[t], np.concatenate(expected), rtol=1e-7, atol=1e-7)


def test_windows_have_a_sixteenth_a_quarter_and_all_of_a_typical_segment() -> None:
    X = [np.random.default_rng(0).normal(size=(96, 41))]
    labels = views.Labels([ml.Partition.from_runs(np.arange(96) // 32)])
    assert views.Windows().fit([X[0][:, :40]], labels).sizes_ == (1, 4, 16)
    assert views.Windows().fit(X, labels).sizes_ == (4,)


def test_neighbors_are_the_standardized_rows_around_a_row() -> None:
    X = DATA.sequences
    (rows, *_) = views.Neighbors(2).fit_transform(X)
    Z = np.pad(
        (X[0] - np.vstack(X).mean(axis=0)) / np.vstack(X).std(axis=0), ((2, 2), (0, 0)), "edge"
    )
    expected = np.hstack([Z[k : k + len(X[0])] for k in range(5)])
    np.testing.assert_allclose(rows, expected, atol=1e-9)


def test_each_is_the_transformer_of_all_rows() -> None:
    view, expected = views.Each(PCA(3)), PCA(3).fit(np.vstack(DATA.sequences))
    for rows, X in zip(view.fit_transform(DATA.sequences), DATA.sequences):
        np.testing.assert_allclose(rows, expected.transform(X), atol=1e-12)
    assert view.get_feature_names_out().tolist() == ["pca0", "pca1", "pca2"]
    frame = pd.DataFrame(DATA.sequences[0], columns=list("abcd"))
    assert views.Each(StandardScaler()).fit(frame).transformer_.feature_names_in_.tolist() == list(
        "abcd"
    )
    pipeline = make_pipeline(views.Each(StandardScaler()), ml.ChangePointMetricLearner())
    pipeline.fit(DATA.sequences, DATA.labels)
    plain = ml.ChangePointMetricLearner().fit(DATA.sequences, DATA.labels)
    for one, other in zip(pipeline.predict(DATA.sequences), plain.predict(DATA.sequences)):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("between", [0.0, 0.5, 1.0])
def test_whitened_rows_are_white_within_segments(between: float) -> None:
    """And so are they with the given part of the covariance between segments."""
    rows = views.Whiten(0.0, between=between).fit_transform(DATA.sequences, LABELS)
    residuals = np.vstack([Z - P.project(Z) for Z, P in zip(rows, LABELS.partitions)])
    within = residuals.T @ residuals / len(residuals)
    centered = np.vstack([Z - Z.mean(axis=0) for Z in rows])
    total = centered.T @ centered / len(centered)
    np.testing.assert_allclose(within + between * (total - within), np.eye(4), atol=1e-8)
    assert (np.diff(np.diag(total)) <= 1e-8).all()


@pytest.mark.parametrize("scale", [1.0, 1e60, 1e-80])
@pytest.mark.parametrize(("constant", "known"), [(False, 120), (True, 120), (False, 90)])
@pytest.mark.filterwarnings("ignore:.*no weight")
def test_a_learner_on_whitened_rows_is_the_whitened_learner(scale, constant, known) -> None:
    """To the last bit, with extreme units, constant columns and partial labels."""
    X = [np.insert(x * scale, [2] * constant, 3.0, axis=1) for x in DATA.sequences]
    y = [np.where(np.arange(120) < known, one, -1) for one in DATA.labels]
    truths = LABELS.partitions if known == 120 else [ml.PartialPartition(120, one) for one in y]
    view = views.Whiten(n_components=3)
    whitened = ml.WhitenedMetricLearner(view=view).fit(X, y)
    rows = view.fit_transform(X, views.Labels(truths))
    plain = ml.ChangePointMetricLearner(regularizer=ml.SquaredFrobenius(1.0), standardize=False)
    plain.fit(rows, truths)
    np.testing.assert_array_equal(plain.components_ @ view.matrix_, whitened.components_)
    assert plain.penalty_ == whitened.penalty_
    for ends, theirs in zip(plain.predict_change_points(rows), whitened.predict_change_points(X)):
        np.testing.assert_array_equal(ends, theirs)


def test_a_column_that_is_constant_within_few_labels_does_not_outweigh_all_others() -> None:
    """With a scale 1e6 times as large as that of others it would leave solvers no digits."""
    rng = np.random.default_rng(0)
    X = [np.column_stack([np.repeat(rng.random(12), 10), rng.normal(size=(120, 2))])]
    y = [np.where(np.arange(120) < 40, np.repeat(np.arange(12), 10), -1)]
    view = views.Whiten(0.0).fit(X, views.Labels([ml.PartialPartition(120, y[0])]))
    variances = np.diag(view.matrix_ @ np.cov(X[0].T, bias=True) @ view.matrix_.T)
    assert variances[0] == pytest.approx(40, rel=1e-2)  # as many as there are labeled rows


def test_whitening_needs_a_weight_where_segments_are_known() -> None:
    X = [one[:120] for one in DATA.sequences[:2]]
    labels = [ml.Partition.from_runs(DATA.labels[0][:120]), ml.PartialPartition(120)]
    with pytest.raises(ValueError, match="Whiten needs stretches whose segments are known"):
        views.Whiten().fit(X, views.Labels(labels, weights=np.array([0.0, 1.0])))


def test_whitening_is_that_of_relevant_components() -> None:
    components = RelevantComponents(shrinkage=0.05).fit(DATA.sequences, DATA.labels).components_
    matrix = views.Whiten(0.05).fit(DATA.sequences, LABELS).matrix_
    np.testing.assert_allclose(matrix, components)


def test_labels_of_some_recordings_are_theirs() -> None:
    codes, weights = [y % 3 for y in DATA.labels], np.arange(5.0)
    some = views.Labels(LABELS.partitions, codes, np.arange(3), weights).subset([3, 1])
    assert some.partitions == [LABELS.partitions[3], LABELS.partitions[1]]
    assert some.codes == [codes[3], codes[1]]
    assert some.weights.tolist() == [3.0, 1.0]


def test_linear_chains_and_unions_have_the_product_of_matrices() -> None:
    X = DATA.sequences
    chain = views.Chain([views.Columns(1, 4), views.Whiten()]).fit(X, LABELS)
    centered = X[0] - X[0].mean(axis=0)
    np.testing.assert_allclose(chain.transform(X)[0], centered @ chain.matrix_.T, atol=1e-9)
    union = views.Union([views.Whiten(), views.Whiten(1.0)]).fit(X, LABELS)
    np.testing.assert_allclose(union.transform(X)[0], centered @ union.matrix_.T, atol=1e-9)
    assert not hasattr(views.Chain([views.OwnScale(), views.Whiten()]).fit(X, LABELS), "matrix_")


@pytest.mark.parametrize("groups", [None, np.zeros(5, int), np.array([0, 0, 1, 1, 2])])
def test_posteriors_come_from_models_of_other_groups(groups) -> None:
    X, codes = DATA.sequences, [y % 3 for y in DATA.labels]
    labels = views.Labels(LABELS.partitions, codes, np.arange(3))
    view = views.Posteriors(LogisticRegression(), context=1, n_folds=3)
    rows = view.fit_transform(X, labels, groups)
    owners, parts = np.arange(5) if groups is None else groups, [np.zeros(120, int) for _ in X]
    for fold, (_, out) in enumerate(GroupKFold(3).split(X, groups=owners) if owners[-1] else []):
        for i in out:
            parts[i][:] = fold
    if owners[-1] == 0:  # a single group has three parts of equal length
        parts = np.split(np.arange(600) // 200, 5)
    windows, expected = list(map(view.windows_.transform, X)), [np.zeros((120, 3)) for _ in X]
    for fold, model in enumerate(view.models_):
        others = [part != fold for part in parts]
        table = np.vstack([x[rest] for x, rest in zip(windows, others)])
        names = np.concatenate([code[rest] for code, rest in zip(codes, others)])
        np.testing.assert_array_equal(model.coef_, LogisticRegression().fit(table, names).coef_)
        for found, x, rest in zip(expected, windows, others):
            if not rest.all():
                found[~rest] = np.log(np.maximum(model.predict_proba(x[~rest]), 1e-3))
    np.testing.assert_array_equal(rows, expected)
    mean = np.mean([model.predict_proba(windows[0]) for model in view.models_], axis=0)
    np.testing.assert_array_equal(view.transform(X)[0], np.log(np.maximum(mean, 1e-3)))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_names_are_equally_likely_where_a_classifier_gives_nan() -> None:
    """GaussianNB does so if a column is constant and no name has all values of a row."""
    X, labels = np.full((8, 1), 7.0), np.repeat(["a", "b"], 4)
    model = ml.estimators.Viterbi(views.Posteriors(GaussianNB(), 1), penalty=1.0)
    told = r"GaussianNB gives probabilities with NaN for 8 of 8"
    with pytest.warns(UserWarning, match=told) as notes:
        found = model.fit([X, X], [labels, labels]).predict_proba(X)
    np.testing.assert_allclose(found, 0.5)
    assert {note.filename for note in notes} == {__file__}  # though scikit-learn calls the view


def test_a_classifier_reads_a_recording_of_weight_two_twice() -> None:
    X, codes = DATA.sequences[:3], [np.minimum(y, 2) for y in DATA.labels[:3]]
    partitions, classes = list(map(ml.Partition.from_runs, codes)), np.arange(3)
    weights = np.array([2.0, 1.0, 1.0])
    weighted = views.Labels(partitions, codes, classes, weights)
    twice = views.Labels([partitions[0], *partitions], [codes[0], *codes], classes)
    view = views.Posteriors(GaussianNB(), 1, 1)
    expected = view.fit([X[0], *X], twice).transform(X)
    for rows, theirs in zip(view.fit(X, weighted).transform(X), expected):
        np.testing.assert_allclose(rows, theirs, atol=1e-6)


def test_expected_boundaries_step_at_boundaries() -> None:
    train, test = (
        make_change_points(6, 200, 3, 3, (5, 8), noise=0.3, random_state=s) for s in (1, 2)
    )
    partitions = [ml.Partition.from_runs(y) for y in train.labels]
    partial = [
        ml.PartialPartition(200, np.where(np.arange(200) < 150, y, -1)) for y in train.labels
    ]
    for labels in (partitions, partial):
        view = views.ExpectedBoundaries(n_folds=3).fit(train.sequences, views.Labels(labels))
        for x, y in zip(test.sequences, test.labels):
            stairs = view.transform([x])[0][:, 0]
            changes = np.flatnonzero(np.diff(y)) + 1
            assert (np.diff(stairs) >= 0).all()
            near = [t for t in range(1, 200) if np.abs(changes - t).min() <= view.tolerance_]
            steps = np.diff(stairs)
            assert steps[np.array(near) - 1].sum() > 0.6 * steps.sum()
            assert stairs[-1] == pytest.approx(len(changes), rel=0.5)


def test_boundaries_that_are_certain_are_steps_of_one() -> None:
    """A classifier that has memorized where boundaries are gives each of them the height 1."""
    y = np.arange(96) // 32
    labels, tree = views.Labels([ml.Partition.from_runs(y)]), DecisionTreeClassifier()
    X = [np.random.default_rng(0).normal(size=(96, 2)) + 9.0 * y[:, None]]
    (stairs,) = views.ExpectedBoundaries(tree, 1, 1).fit(X, labels).transform(X)
    np.testing.assert_allclose(stairs[[16, 48, 95], 0], [0.0, 1.0, 2.0])


def test_filled_rows_are_interpolated() -> None:
    x = np.array([np.nan, 1.0, np.nan, np.nan, 4.0, np.nan])[:, None]
    (filled,) = views.Fill().fit_transform([np.hstack([x, np.arange(6.0)[:, None]])])
    np.testing.assert_allclose(filled, np.stack([[1, 1, 2, 3, 4, 4], np.arange(6)], axis=1))
    far = np.array([[1.7e308], [np.nan], [-1.7e308]])
    np.testing.assert_array_equal(views.Fill().fit_transform([far])[0][1], 0.0)


# -- labels and answers around rows that are left out

KEPT = st.lists(st.booleans(), min_size=7, max_size=7).filter(any).map(np.flatnonzero)


@settings(deadline=None, max_examples=60)
@given(KEPT, st.data())
def test_answers_return_to_the_middle_of_gaps(kept, data) -> None:
    """Restricted again, they are what they were; a change has as many rows lost on both sides."""
    n = len(kept)
    ends = np.append(np.array(sorted(data.draw(st.sets(st.integers(1, max(1, n - 1))))), int), n)
    ends = np.unique(ends[ends <= n])
    whole = placed(ends, kept, 7)
    assert whole[-1] == 7
    assert ml.Partition(ends=whole).at(kept) == ml.Partition(ends=ends)
    for (a, b), middle in zip(pairwise(kept), borders(kept)):
        assert 0 <= (b - middle) - (middle - a - 1) <= 1 or middle - a - 1 == (b - a - 1) // 2


def test_a_forest_of_several_jobs_gives_the_bits_of_one() -> None:
    """The votes are added in the order of the trees, whatever thread is first."""
    rng, codes = np.random.default_rng(0), np.repeat([0, 1, 2], 50)
    X, labels = [rng.normal(size=(150, 2)) + codes[:, None]] * 2, ml.Partition.from_runs(codes)
    y, new = views.Labels([labels] * 2, [codes] * 2, np.arange(3)), [rng.normal(size=(9000, 2))]
    forests = [RandomForestClassifier(30, random_state=0, n_jobs=jobs) for jobs in (1, 4)]
    one, several = (views.Posteriors(forest, 0).fit(X, y).transform(new)[0] for forest in forests)
    np.testing.assert_array_equal(one, several)
