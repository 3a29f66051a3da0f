"""Read the sequences of an experiment, and divide them into cases and folds."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import joblib
import numpy as np
from hydra.utils import instantiate
from numpy.typing import NDArray
from omegaconf import DictConfig
from sklearn.model_selection import GroupKFold
from sklearn.utils import check_random_state

from experiments.harness.procedure import Case
from metriclearn.datasets import LabeledSequences, data_folder


def read_cases(config: DictConfig) -> list[Case]:
    """Read the cases of an experiment: training and test data, with folds of the training data."""
    dataset = config.dataset
    if "root" not in dataset:
        train, validation, test = synthetic_sequences(config, config.seed)
        both = joined(train, validation)
        n, total = len(train), len(both)
        return [case_of("test", both, test, [(np.arange(n), np.arange(n, total))])]
    fits_features = dataset.get("fits_features")
    data = load_sequences(config, dataset.root)
    if dataset.test_root is not None:
        fitted: dict[str, Any] = {}
        if fits_features:
            fitted = {"fitted": data.names, "fitted_root": data_folder(dataset.name, dataset.root)}
            data = load_sequences(config, dataset.root, fitted=data.names)
        test = load_sequences(config, dataset.test_root, **fitted)
        check_test(data, test)
        return [case_of(str(dataset.test_root), data, test, group_folds(data, config.n_folds))]
    n_test = dataset.n_test or max(1, round(len(set(data.groups)) / 4))
    cases = group_cases(data, n_test, dataset.rotate, config.n_folds, config.seed)
    if not fits_features:
        return cases
    return [refitted(case, partial(load_sequences, config, dataset.root)) for case in cases]


def load_sequences(config: DictConfig, root: str | None, **options: Any) -> LabeledSequences:
    """Load all sequences of a real data set from the folder ``root``, with options of its loader.

    Raises
    ------
    ValueError
        If a folder is needed and none is given.
    """
    dataset = config.dataset
    if root is None and "path" in dataset:
        raise ValueError(
            f"The data set {dataset.name} needs the folder of your sequences; add "
            "dataset.path=FOLDER, and dataset.label=COLUMN if the labels are not in 'label'."
        )
    with _options_named():
        data = instantiate(dataset.loader, _partial_=True)(root, **options)
    return data.select(np.arange(len(data))[: dataset.n_sequences])


@contextmanager
def _options_named() -> Iterator[None]:
    """Write the options in errors and warnings in the syntax of this command line. For example,
    dataset.ignore=[time] replaces (ignore=['time'], --ignore time)."""

    def translated(text: object) -> str:
        named = re.sub(r"\((\w+)=([^()]*), --[^()]*\)", r"(dataset.\1=\2)", str(text))
        return (
            re.sub(r"(?<=[\[ ])'([^' ]*)'(?=[\],])", r"\1", named) if named != str(text) else named
        )

    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            yield
    except ValueError as error:
        raise ValueError(translated(error)) from error
    finally:
        for warning in caught:
            warnings.warn(translated(warning.message), warning.category, stacklevel=4)


def synthetic_sequences(config: DictConfig, seed: int, **options: Any) -> list[LabeledSequences]:
    """Generate training, validation and test sequences, which differ only in ``random_state``."""
    make = instantiate(config.dataset.loader, _partial_=True)
    return [make(random_state=3 * seed + i, **options) for i in range(3)]


def refitted(case: Case, load: Callable[..., LabeledSequences]) -> Case:
    """Replace the features of a case by those that ``load(fitted=…)`` fits to the training
    sequences only."""
    data = load(fitted=case.train.names)

    def again(part: LabeledSequences) -> LabeledSequences:
        return data.select([data.names.index(name) for name in part.names])

    folds = [(again(a), again(b)) for a, b in case.folds]
    return replace(case, train=again(case.train), test=again(case.test), folds=folds)


def case_of(
    name: str,
    train: LabeledSequences,
    test: LabeledSequences,
    folds: Sequence[tuple[NDArray, NDArray]],
    table: str = "test",
) -> Case:
    """Make a case with folds, which are given as pairs (training, held out) of indices into
    ``train``."""
    parts = [(train.select(rest), train.select(held_out)) for rest, held_out in folds]
    return Case(name, train, test, parts, table)


def cut(data: LabeledSequences, parts: Mapping[int, Any]) -> LabeledSequences:
    """Cut parts out of some sequences. ``parts`` maps the index of a sequence to a slice or a mask
    of its samples."""
    kept = [np.arange(len(data.labels[i]))[part] for i, part in parts.items()]
    starts = [np.searchsorted(rows, data.starts[i]) for i, rows in zip(parts, kept)]
    return replace(
        data.select(list(parts)),
        sequences=[data.sequences[i][part] for i, part in parts.items()],
        labels=[data.labels[i][part] for i, part in parts.items()],
        starts=[one[(one > 0) & (one < len(rows))] for one, rows in zip(starts, kept)],
    )


def joined(a: LabeledSequences, b: LabeledSequences) -> LabeledSequences:
    """Join training and validation sequences into one data set."""
    return replace(
        a,
        sequences=a.sequences + b.sequences,
        labels=a.labels + b.labels,
        starts=a.starts + b.starts,
        groups=[f"train_{group}" for group in a.groups] + [f"valid_{group}" for group in b.groups],
        names=a.names + b.names,
    )


def group_cases(
    data: LabeledSequences,
    n_test: int,
    rotate: bool,
    n_folds: int,
    seed: int,
    option: str = "dataset.n_test",
) -> list[Case]:
    """Make cases that hold out ``n_test`` groups each. The groups are in random order.

    Parameters
    ----------
    rotate : bool
        Hold out every group once, in ⌈groups / n_test⌉ cases, instead of making one case.
    n_folds : int
        Folds of each training part, see :func:`group_folds`.
    option : str
        The name of ``n_test`` on the command line, for the error message.

    Raises
    ------
    ValueError
        If all groups are held out.
    """
    groups = sorted(set(data.groups))
    if not 1 <= n_test < len(groups):
        raise ValueError(
            f"{data.name} has {len(groups)} group(s), of which {n_test} cannot be held out for "
            f"test; set {option} to less, or pass test data of their own as test_root."
        )
    order = [groups[i] for i in check_random_state(seed).permutation(len(groups))]
    parts = [order[i : i + n_test] for i in range(0, len(order), n_test)]
    cases = []
    for part in parts if rotate else parts[:1]:
        rest = [group for group in groups if group not in part]
        train, test = data.split_by_group(groups=[rest, sorted(part)])
        cases.append(case_of(", ".join(sorted(part)), train, test, group_folds(train, n_folds)))
    return cases


def group_folds(data: LabeledSequences, n_folds: int) -> list[tuple[NDArray, NDArray]]:
    """Make at most ``n_folds`` folds over groups, or over sequences if all are in one group.

    Raises
    ------
    ValueError
        If there is only one sequence.
    """
    if len(data) < 2:
        raise ValueError(
            f"{data.name} needs 2 or more training sequences to choose hyper-parameters, got "
            f"{len(data)}; add some, hold out fewer groups, or cut long sequences into several."
        )
    groups = data.groups if len(set(data.groups)) > 1 else [str(i) for i in range(len(data))]
    cutter = GroupKFold(min(n_folds, len(set(groups))))
    return list(cutter.split(np.zeros(len(data)), groups=groups))


def check_test(train: LabeledSequences, test: LabeledSequences) -> None:
    """Raise a ValueError unless test sequences are new and have the features of the training."""
    refuse_seen(train, test)
    if test.feature_names != train.feature_names:
        raise ValueError(
            f"Test data of {train.name} need the {len(train.feature_names)} features of the "
            f"training data in the same order, got {len(test.feature_names)}, beginning with "
            f"{test.feature_names[:5]}."
        )


def refuse_seen(train: Any, *tests: Any) -> None:
    """Raise a ValueError if a training sequence is also a test sequence."""
    known = set(fingerprints(train))
    for test in tests:
        pairs = zip(test.names, fingerprints(test))
        if seen := [name for name, mark in pairs if mark in known]:
            raise ValueError(
                f"test_root needs data that are not for training, but {len(seen)} of "
                f"{len(test.names)} are the same in both, such as {seen[0]!r}; name another folder."
            )


def fingerprints(data: Any) -> list[str]:
    """Compute a hash of every sequence or image. The hash depends only on the data, not on names
    and folders."""
    arrays = getattr(data, "images", None) or data.sequences
    return [joblib.hash(np.ascontiguousarray(X), "sha1") for X in arrays]
