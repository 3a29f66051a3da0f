"""Test the properties of this folder on random cases for some minutes: make fuzz MINUTES=10.

``--only objectives --cases 10000`` draws 10,000 cases of one property.

At the end it prints the numbers of cases, by property and by what was tried, of wrong answers,
invalid partitions, results with NaN, hangs and other failures, and the share of errors that are
whole sentences of metriclearn. The exit status is 1 if there is a failure or that share is below
99.9 %.
"""

import argparse
import os
import random
import sys
import tempfile
import textwrap
import time
from collections import Counter
from multiprocessing import get_context
from typing import Any

KINDS = ("Wrong", "Invalid", "NonFinite", "Hang")
# Share of the time.
SHARES = {"oracles": 4, "hostile": 6, "objectives": 2, "laws": 2, "models": 3}
# others 1


def _properties() -> dict[str, Any]:
    """Name of a property -> function that tests one case, chosen by random bytes."""
    from hypothesis import given

    from tests.adversarial import (
        test_borders,
        test_certificates,
        test_files,
        test_hostile,
        test_laws,
        test_models,
        test_tables,
    )
    from tests.adversarial import test_oracles as oracles
    from tests.adversarial.outcome import in_ci

    folder = test_files.Path(tempfile.mkdtemp())
    files = test_files.contents(folder)

    @in_ci(1)
    @given(test_files.st.sampled_from(sorted(files)), test_files.MUTATION)
    def changed(kind: str, mutation: tuple[str, float, int]) -> None:
        test_files.assert_valid_or_refused(folder / "changed.npz", kind, files[kind], mutation)

    tests = {
        "oracles": oracles.test_oracles,
        "hostile": test_hostile.test_hostile,
        "objectives": test_certificates.test_objectives,
        "laws": test_laws.test_laws,
        "models": test_models.test_models,
        "files": changed,
        "whole numbers": test_borders.test_whole_numbers_of_every_type,
        "overwritten": test_borders.test_arrays_may_be_overwritten,
        "interrupted": test_borders.test_interruptions_are_told,
        "tables": test_tables.test_files_and_streams_of_changed_tables,
    }
    return {name: test.hypothesis.fuzz_one_input for name, test in tests.items()}


def work(
    seed: int, seconds: float, most: int, only: list[str]
) -> tuple[Counter, Counter, Counter, list[str]]:
    """Cases by property, failures by kind, errors by whether metriclearn words them, examples."""
    import warnings

    os.chdir(tempfile.mkdtemp())
    warnings.simplefilter("ignore")
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115  progress of thousands of fits
    import pytest

    properties = {k: test for k, test in _properties().items() if not only or k in only}
    from tests.adversarial.outcome import CASES
    from tests.adversarial.test_hostile import ERRORS, OBSCURE

    dice, spent = random.Random(seed), dict.fromkeys(properties, 0.0)
    failures: Counter[str] = Counter()
    examples: list[str] = []
    begin = time.monotonic()
    while time.monotonic() - begin < seconds and CASES.total() < most:
        name = min(properties, key=lambda one: spent[one] / SHARES.get(one, 1))
        start = time.monotonic()
        try:
            properties[name](dice.randbytes(400))
        except (Exception, pytest.fail.Exception) as error:
            unmet = isinstance(error, (AssertionError, pytest.fail.Exception))
            kind = type(error).__name__
            failures[kind if kind in KINDS else "Wrong" if unmet else "other"] += 1
            examples.append(f"{name}: {kind}: {' '.join(str(error).split())[:300]}")
        spent[name] += time.monotonic() - start
    return CASES, failures, ERRORS, examples + [f"not ours: {text}" for text in OBSCURE]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cases", type=int, default=10**12, help="stop after so many cases")
    parser.add_argument("--only", nargs="*", default=[], help="properties; all by default")
    parser.add_argument("--seed", type=int, default=None, help="chosen at random if not given")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}, {options.workers} processes, {options.minutes:g} minutes", flush=True)
    most = -(-options.cases // options.workers)
    jobs = [(seed + i, 60.0 * options.minutes, most, options.only) for i in range(options.workers)]
    with get_context("spawn").Pool(options.workers) as pool:
        results = pool.starmap(work, jobs)
    cases, failures, errors = (sum((r[i] for r in results), Counter()) for i in range(3))
    for example in sorted({text for result in results for text in result[3]})[:200]:
        print(example)
    share = 1.0 - errors[False] / max(1, sum(errors.values()))
    print(f"cases         {sum(cases.values()):,}")
    parts: dict[str, dict[str, int]] = {}
    for key, many in cases.most_common():
        name, _, target = key.partition(": ")
        parts.setdefault(name, {})[target] = many
    for name, targets in parts.items():
        shares = ", ".join(f"{target} {many:,}" for target, many in targets.items() if target)
        line = f"  {name:11s} {sum(targets.values()):,}  {shares}"
        print(textwrap.fill(line, 100, subsequent_indent=22 * " "))
    for kind in (*KINDS, "other"):
        print(f"{kind:13s} {failures[kind]}")
    print(f"errors ours   {100 * share:.2f} % of {sum(errors.values()):,}")
    return int(sum(failures.values()) > 0 or share < 0.999)


if __name__ == "__main__":
    sys.exit(main())
