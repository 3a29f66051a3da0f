"""Results in words: sentences, footnotes, tables in Markdown, and paired tests of differences."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any

import numpy as np
from scipy.stats import binomtest, permutation_test, rankdata, wilcoxon

from experiments.harness.results import (
    MEASURE,
    OURS,
    TRIVIAL,
    Results,
    Table,
    compared,
    is_ours,
    results_table,
    rows_of,
)
from metriclearn.plots.canvas import number

_FEWEST_PAIRS = 6  # a two-sided test of five signs cannot be below 5 %
_ROUNDING = 1e-9
# A case and its choice, among those of several cases that differ
_CASE = re.compile(r"\[[^\]]*\] (.*?)(?: \(\w+ held out [^)]*\))?(?=; \[|$)")
_MOST_UNITS = 12  # largest number of columns of a table with one for every unit


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, such as "1 test user", "2 test users" or "3 test stories"."""
    return f"{count} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Return the plural of a unit, such as "test users", "draws of all sequences", "stories" or
    "test series"."""
    first, of, rest = noun.partition(" of ")
    if re.search("[^aeiou]y$", first):
        first = f"{first[:-1]}ies"
    elif not first.endswith("series"):
        first = f"{first}s"
    return f"{first}{of}{rest}"


def sentence(results: Results, table: Table) -> str:
    """Write a sentence about the first column of a table. The sentence compares ours with the best
    baseline or, without a row "ours", the best method with the best baseline."""
    cells = results_table(results, table)
    column = next(c for c in table["columns"] if any(c in mine for mine in cells.values()))
    sign = -1 if table["better"] == "more" else 1
    ranked = sorted(
        ((method, mine[column]) for method, mine in cells.items() if column in mine),
        key=lambda pair: sign * pair[1].mean,
    )
    name, cell = next((pair for pair in ranked if pair[0] == OURS), ranked[0])
    place = counted(len(rows_of(results, table, column)[0]["values"]), table["unit"])
    if len(table["columns"]) > 1:
        place += f", {table['columns'][column]}"
    text = f"{name}: {table['words']} = {cell} ({place})"
    others = [pair for pair in ranked if not is_ours(pair[0]) and pair[0] != name]
    if not others:
        return f"{text}."
    other, rival = others[0]
    gain = sign * (rival.mean - cell.mean)
    if abs(gain) <= 1e-12:
        return f"{text}, the same as the best baseline, {other}."
    text += f", against {rival} for the best baseline, {other}"
    error = (cell if gain > 0 else rival).standard_error
    if error is not None and abs(gain) <= error:
        return f"{text}; the difference is within one standard error."
    return f"{text}." if gain > 0 else f"{text}, which is better."


def headline(results: Results) -> str:
    """State the findings in words. If the results have ``sentences``, return these. Otherwise, if
    there is one main table, return sentences about this table. If there are several main tables,
    return a sentence that tells in how many columns ours is best."""
    if sentences := results.get("sentences"):
        return " ".join(sentences)
    main = [table for table in results["tables"] if table["main"]]
    if len(main) == 1:
        # Learners minimize MEASURE; the measure of a field alone could hide a bad result.
        kinds = [main[0]["measure"], MEASURE]
        told = [t for t in results["tables"] if t["name"] == main[0]["name"]]
        told = [t for kind in dict.fromkeys(kinds) for t in told if t["measure"] == kind]
        return " ".join(sentence(results, table) for table in told)
    places = {"best": 0, "within one standard error of the best": 0, "behind": 0}
    only = 0  # columns in which only a trivial row is better
    for table, column in [(one, column) for one in main for column in one["columns"]]:
        rivals = rows_of(results, table, column)
        rivals = [row for row in rivals if row["method"] == OURS or not is_ours(row["method"])]
        if all(row["method"] != OURS for row in rivals):
            continue
        place = _place(rivals, table["better"])
        places[list(places)[place]] += 1
        learned = [row for row in rivals if not TRIVIAL.fullmatch(row["method"])]
        only += place == 2 and _place(learned, table["better"]) < 2
    parts = [f"{words} in {count}" for words, count in places.items() if count]
    if not parts:
        return f"{results['name']}: {counted(len(main), 'table')}."
    n, words = sum(places.values()), counted(len(main), "table")
    where = words if n == len(main) else f"{n} columns of {words}"
    *first, last = parts
    text = f"{OURS} is {', '.join(first)} and {last}" if first else f"{OURS} is {last}"
    of_ours = {row["method"] for table in main for row in rows_of(results, table)} - {OURS}
    apart = f', if the rows "{OURS}/…" do not count' if any(map(is_ours, of_ours)) else ""
    trivial = f"; in {only} of them only a trivial baseline is better" if only else ""
    return f"{text} of the {where}{trivial}{apart}."


def _place(rivals: Sequence[Mapping[str, Any]], better: str) -> int:
    """Rank the row "ours" in a column: 0 if it is best, 1 if it is within one standard error of the
    best, and 2 otherwise."""
    marks = compared(rivals, better)
    cell = next(mark for row, mark in zip(rivals, marks) if row["method"] == OURS)
    return 0 if cell.best else 1 if cell.tied else 2


def paired_tests(results: Results, table: Table, column: str) -> dict[str, dict[str, Any]]:
    """Test for every other method in a column whether ours differs from it, paired over units.

    ``better`` counts the units on which ours is better, and ``worse`` counts the units on which
    ours is worse. ``mcnemar`` is the p-value of the exact McNemar test of these counts.
    ``wilcoxon`` is the p-value of the signed-rank test of the differences, each multiplied by the
    weight of its unit. Both tests are two-sided, with Holm's correction for the number of methods
    (Scandinavian Journal of Statistics 6, 1979). The result is empty if the table is not a main
    table, if its units are not independent, if it has no row "ours", or if it has fewer than six
    units.
    """
    rows = {row["method"]: row for row in rows_of(results, table, column)}
    mine = rows.get(OURS)
    told = table["main"] and table.get("independent", True)
    if not told or mine is None or len(mine["units"]) < _FEWEST_PAIRS:
        return {}
    weights = dict(zip(mine["units"], mine.get("weights", repeat(1.0))))
    own, sign = dict(zip(mine["units"], mine["values"])), -1 if table["better"] == "more" else 1
    tests: dict[str, dict[str, Any]] = {}
    for method in results_table(results, table):
        row = rows.get(method)
        if row is None or is_ours(method) or set(row["units"]) != set(own):
            continue
        pairs = zip(row["units"], row["values"])
        gains = np.array([sign * weights[unit] * (value - own[unit]) for unit, value in pairs])
        gains = gains[np.abs(gains) > _ROUNDING * np.abs(row["values"]).max()]
        better, n = int(np.sum(gains > 0)), len(gains)
        signs = _signs(better, n) if n else 1.0
        ranks = _signed_ranks(tuple(gains)) if n else 1.0
        tests[method] = {"better": better, "worse": n - better, "mcnemar": signs, "wilcoxon": ranks}
    for name in ("mcnemar", "wilcoxon"):
        for test, p in zip(tests.values(), holm([test[name] for test in tests.values()])):
            test[name] = p
    return tests


def holm(ps: Sequence[float]) -> list[float]:
    """Apply Holm's correction to p-values, one for each test."""
    corrected, least = [0.0] * len(ps), 0.0
    for place, i in enumerate(np.argsort(ps, kind="stable")):
        least = corrected[i] = max(least, min(1.0, float((len(ps) - place) * ps[i])))
    return corrected


@cache
def _signs(better: int, n: int) -> float:
    """Compute the p-value of the exact McNemar test. The value is cached, because many methods have
    the same two counts."""
    return binomtest(better, n).pvalue


@cache
def _signed_ranks(gains: tuple[float, ...]) -> float:
    """Compute the p-value of scipy's ``wilcoxon``. If there are ties, scipy tries all choices of
    signs and computes the ranks again for each choice, which is slow. This function computes the
    ranks once."""
    ranks = rankdata(np.abs(gains))
    if len(gains) > 13 or len(np.unique(ranks)) == len(gains):  # scipy tries no choices of signs
        return float(wilcoxon(gains).pvalue)
    tried = permutation_test((np.sign(gains) * ranks,), np.sum, permutation_type="samples")
    return float(tried.pvalue)


def tests_markdown(results: Results, table: Table) -> list[str]:
    """Write the results of :func:`paired_tests` as lines of a table. If there are no tests, write
    why.

    The tests are for the column in which the most methods differ from ours, or for the first of
    several such columns.
    """
    rows = rows_of(results, table)
    if not table["main"] or all(row["method"] != OURS for row in rows):
        return []
    n = len(rows[0]["units"])
    if not table.get("independent", True):
        return [f"No paired test: {plural(table['unit'])} are not independent.", ""]
    if n < _FEWEST_PAIRS:
        least = f"even were ours better in all, p would be {2 ** (1 - n):.2g}"
        return [f"No paired test over {counted(n, table['unit'])}: {least}.", ""]
    columns = {name: paired_tests(results, table, name) for name in table["columns"]}
    differing = {
        name: sum(test["better"] + test["worse"] > 0 for test in tests.values())
        for name, tests in columns.items()
    }
    column = max(differing, key=differing.__getitem__)
    if not differing[column]:
        return []
    title, tests = table["columns"][column], columns[column]
    head = ["ours against", "better in", "worse in", "p (McNemar)", "p (Wilcoxon)"]
    lines = [
        [method.replace("|", "\\|"), test["better"], test["worse"]]
        + [f"{test[name]:.2g}" for name in ("mcnemar", "wilcoxon")]
        for method, test in tests.items()
    ]
    count = counted(n, table["unit"])
    words = f"Paired over {count}, {title}; p two-sided, Holm-corrected over the methods:"
    return [words, "", *markdown_table(head, lines), ""]


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return the lines of a Markdown table. The first column is aligned left, all others right."""
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    return lines + [f"| {' | '.join(map(str, row))} |" for row in rows]


def table_markdown(results: Results, table: Table) -> list[str]:
    """Return the lines of one table in Markdown, for a README or a page of results."""
    lines = []
    for method, cells in results_table(results, table).items():
        texts = [c.mark(str(c)) if (c := cells.get(name)) else "–" for name in table["columns"]]
        lines.append([method.replace("|", "\\|"), *texts])
    return markdown_table(["method", *table["columns"].values()], lines)


def footnote(results: Results, table: Table) -> str:
    """Explain the numbers and signs of a table."""
    rows = rows_of(results, table)
    cells = [cell for mine in results_table(results, table).values() for cell in mine.values()]
    count = counted(max(len(row["values"]) for row in rows), table["unit"])
    errors = any(cell.standard_error is not None for cell in cells)
    spread = f"mean ± standard error over {count}" if errors else f"of {count}: no standard error"
    texts = [f"{table['words']}, {spread}; {table['better']} is better. Bold: best of its column."]
    if any(cell.tied for cell in cells):
        texts.append("†: within one standard error of it.")
    unfinished = [row for row in rows if row["stopped"]]
    if unfinished:
        cases: dict[str, dict[str, list[str]]] = {}
        for row in unfinished:
            gap = "" if row["gap"] is None else f", certified gap {100 * row['gap']:.2g} %"
            mine = cases.setdefault(row["method"], {})
            mine.setdefault(f"{row['stopped']}{gap}", []).append(table["columns"][row["column"]])
        words = []
        for method, mine in cases.items():
            for case, columns in mine.items():
                where = f" ({', '.join(columns)})" if len(mine) > 1 else ""
                words.append(f"{method}{where} in {case}")
        told = "; ".join(words)
        texts.append(f"‡: training stopped before its tolerance: {told}.")
    return " ".join(filter(None, [*texts, table["note"]]))


def unit_table(results: Results, table: Table) -> dict[str, Any]:
    """Return the value of every method on every unit, from the first column of a table. The result
    is empty if there is only one unit, if there are too many, or if methods have different
    units."""
    rows = rows_of(results, table, next(iter(table["columns"])))
    units = rows[0]["units"] if rows else []
    if not 1 < len(units) <= _MOST_UNITS or any(row["units"] != units for row in rows):
        return {}
    values = {row["method"]: row["values"] for row in rows}
    order = [method for method in results_table(results, table) if method in values]
    return {"units": units, "values": {method: values[method] for method in order}}


def explanation(results: Results) -> str:
    """Explain ‖M − N‖² in words, with the loss of a single segment."""
    rows = [row for row in results["rows"] if row["measure"] == MEASURE]
    if not rows:
        return ""
    text = (
        "‖M − N‖² compares two partitions, K + K′ − 2 Σ |C ∩ C′|² / (|C| |C′|) over all pairs of a "
        "part C of one and C′ of the other: 0 where they are the same, about 1 for each part too "
        "many or missed, less than K + K′ always."
    )
    trivial = [row for row in rows if TRIVIAL.fullmatch(row["method"])]
    if not trivial:
        return text
    costs: dict[str, str] = {}
    for row in trivial:
        costs.setdefault(row["table"], number(row["mean"]))
    where = {table["name"]: table["title"] for table in results["tables"]}
    parts = [f"{cost} ({where[name]})" for name, cost in costs.items()]
    told = parts if len(parts) > 1 else costs.values()
    return f"{text} {trivial[0]['method'].capitalize()} for everything costs {', '.join(told)}."


def choices(results: Results) -> dict[str, list[str]]:
    """List the choices of each method, in words, with the table and the column. If a table has
    several measures, only its first measure is used."""
    firsts = {table["name"]: table["measure"] for table in reversed(results["tables"])}
    titles = {(t["name"], t["measure"]): t for t in results["tables"]}
    told: dict[str, list[str]] = {}
    for row in sorted(results["rows"], key=lambda row: row["method"] != OURS):
        if row["choice"] in row["method"] or firsts[row["table"]] != row["measure"]:
            continue  # there was no choice, or the name says it
        table = titles[row["table"], row["measure"]]
        place = [table["title"]] if len(firsts) > 1 else []
        place += [table["columns"][row["column"]]] if len(table["columns"]) > 1 else []
        start = f"{', '.join(place)}: " if place else ""
        told.setdefault(row["method"], []).append(f"{start}{_counted(row['choice'])}")
    return told


def _counted(text: str) -> str:
    """Count the cases with equal choices; results.json has the choice of every case."""
    cases = _CASE.findall(text)
    if not cases:
        return text
    counts = Counter(one or "nothing to choose" for one in cases).most_common()
    told = [f"{one} ({n})" for one, n in counts]
    told[0] = f"{counts[0][0]} ({counts[0][1]} of {len(cases)} cases)"
    return "; ".join(told)


def duration(seconds: float) -> str:
    """Return seconds as text, in minutes and hours if they are many."""
    if seconds < 60:
        return f"{number(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
