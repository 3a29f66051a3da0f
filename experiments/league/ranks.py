"""Mean ranks, tests, tables and the diagram of the league, from its results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import rankdata, wilcoxon

from experiments.harness.committed import is_older
from experiments.harness.results import MEASURE, ONE, OURS, Results, is_ours, standard_error
from experiments.harness.wording import holm, markdown_table, paired_tests
from metriclearn.plots.canvas import INK, canvas, figure_of

_FEWEST = 20  # units of a set on which ours is compared with classifiers
_FAR = 0.8  # a loss below this share of another is clearly less
LEAST = 6  # units of a set that counts for tests, as two signs of five cannot be below 5 %
_OVER, _ALONE = "ours/over probabilities", "ours/metric alone, "
RIVAL = "windows, extra trees, Viterbi"
_PLANNED = RIVAL, "MS-TCN", "compromise of rivals"  # whatever the results would be
_ENSEMBLES = ("compromise of rivals", "ours/metrics alone", "vote over samples", "ours/best member")
_DECODED = ("Viterbi", "boundaries", "conditional random field")  # how names of classifiers end


def means(
    results: Results, measure: str = MEASURE, field: str = "mean"
) -> dict[str, dict[str, float]]:
    """Return the mean of a measure over the units of every set, or another field of its rows, by
    method and then by set."""
    found: dict[str, dict[str, float]] = {}
    for row in results["rows"]:
        if row["measure"] == measure:
            found.setdefault(row["method"], {})[row["table"]] = row[field]
    return found


def main_rows(results: Results) -> Iterator[tuple[Results, dict[str, Any]]]:
    """Yield every main table, with its rows by method."""
    for table in results["tables"]:
        if table["main"]:
            rows = [row for row in results["rows"] if row["table"] == table["name"]]
            yield table, {row["method"]: row for row in rows if row["measure"] == MEASURE}


def losses(results: Results, named: bool = False) -> tuple[list[str], list[str], NDArray]:
    """Return the names of the sets, the names of the methods that have results on all of them, and
    the mean losses (sets, methods).

    With ``named``, only sets whose labels name classes are taken. On these sets the methods include
    all classifiers. If there are no sets, there are no methods.
    """
    found = means(results)
    sets = [table["name"] for table in results["tables"] if table["main"]]
    if named:
        classes = means(results, "names_right")
        sets = [name for name in sets if any(name in mine for mine in classes.values())]
    methods = [method for method, mine in found.items() if sets and set(sets) <= set(mine)]
    table = [[found[m][s] for m in methods] for s in sets]
    return sets, methods, np.array(table).reshape(len(sets), len(methods))


def mean_ranks(results: Results, named: bool = False) -> dict[str, float]:
    """Rank the methods by their loss on every set, and return the mean rank of each method, the
    best method first. Equal losses share a rank."""
    _, methods, table = losses(results, named)
    if not methods:
        return {}
    ranks = rankdata(table.round(12), axis=1).mean(axis=0)
    return {methods[i]: float(ranks[i]) for i in np.argsort(ranks, kind="stable")}


def mean_over(sets: Sequence[str], mine: Mapping[str, float]) -> str:
    """Return the mean of a method over sets, as text. If the method lacks some of the sets, the
    text gives the number of sets that it has."""
    values = [mine[name] for name in sets if name in mine]
    some = f" ({len(values)} sets)" if len(values) < len(sets) else ""
    return f"{np.mean(values):.3g}{some}" if values else "–"


def ranking(results: Results) -> tuple[list[str], dict[str, list[str]]]:
    """Return the names of the columns of a table of methods, and the cells of each, best first.

    The cells are the two mean ranks of the method, over data sets with names and over all data
    sets, and means over data sets with names.
    """
    everywhere, named = mean_ranks(results), mean_ranks(results, named=True)
    sets, every_set = losses(results, named=True)[0], losses(results)[0]
    others = ("boundary_f1", "covering", "names_right", "predict_seconds")
    shown = [means(results, measure) for measure in others] + [means(results, field="seconds")]
    methods = sorted(shown[-1], key=lambda m: (named.get(m, np.inf), everywhere.get(m, np.inf)))
    cells = {}
    for method in methods:
        ranks = [f"{r[method]:.2f}" if method in r else "–" for r in (named, everywhere)]
        cells[method] = [*ranks, *(mean_over(sets, of.get(method, {})) for of in shown)]
    head = [f"mean rank, {len(sets)} sets with names", f"mean rank, all {len(every_set)} sets"]
    return [*head, "F1", "covering", "names right", "s to predict", "s to train"], cells


def ranks_table(results: Results) -> list[str]:
    """Make the table of methods, see :func:`ranking`."""
    (named, everywhere, *head), cells = ranking(results)
    p = against_ours(results, named=True) | against_ours(results)
    tests = {method: f"{p[method]:.2g}" if method in p else "–" for method in cells}
    lines = [[m, *row[:2], tests[m], *row[2:]] for m, row in cells.items()]
    return markdown_table(["method", named, everywhere, "p against ours", *head], lines)


def sets_table(results: Results) -> list[str]:
    """Make the table of data sets. A row has our loss, the loss of euclidean and the loss of the
    best other method on one set."""
    lines = []
    for table, rows in main_rows(results):
        others = {m: row["mean"] for m, row in rows.items() if not is_ours(m)}
        best = min(others, key=others.__getitem__)
        tests = paired_tests(results, table, "estimated")
        p = f"{tests[best]['wilcoxon']:.2g}" if best in tests else "–"
        cells = [f"{rows[m]['mean']:.3g}" for m in (OURS, "euclidean", best)]
        lines.append([table["name"], len(rows[OURS]["units"]), *cells[:2], best, cells[2], p])
    head = ["set", "units", OURS, "euclidean", "best other", "its loss", "p"]
    return markdown_table(head, lines)


def best_decoded(rows: Mapping[str, Any]) -> str | None:
    """Return the classifier with Viterbi of least loss. The test data choose it, which favors
    it."""
    decoded = [m for m in rows if m.endswith(_DECODED) and not is_ours(m)]
    return min(decoded, key=lambda m: rows[m]["mean"], default=None)


def with_p(head: Sequence[str], lines: Sequence[Sequence[Any]], ps: Sequence[float]) -> list[str]:
    """Make a table whose last column has p-values, with Holm's correction for its lines."""
    cells = [[*line, f"{p:.2g}"] for line, p in zip(lines, holm(ps))]
    return markdown_table([*head, "p"], cells)


def classifiers_table(results: Results) -> list[str]:
    """Make a table that compares ours with the best classifier with Viterbi, on sets of 20 or more
    units.

    Holm's correction is for the number of sets.
    """
    lines, ps = [], []
    for table, rows in main_rows(results):
        decoded = best_decoded(rows)
        if decoded is None or len(rows[OURS]["units"]) < _FEWEST:
            continue
        mine, best = rows[OURS], rows[decoded]
        gains = np.subtract(best["values"], mine["values"])
        ps.append(_p(gains))
        sides = [str(int(np.sum(gains > 1e-12))), str(int(np.sum(gains < -1e-12)))]
        loss = [f"{row['mean']:.3g}" for row in (mine, best)]
        lines.append([table["name"], len(gains), loss[0], best["method"], loss[1], *sides])
    head = ["set", "units", OURS, "best classifier with Viterbi", "its loss"]
    return with_p([*head, "better in", "worse in"], lines, ps)


def unseen_table(results: Results) -> list[str]:
    """Make a table that compares ours with the Euclidean metric or the best classifier with
    Viterbi, whichever is better.

    The last line counts the sets on which ours has less loss.
    """
    lines, ratios = [], []
    for table, rows in main_rows(results):
        best = str(best_decoded(rows))
        rival = min([best, "euclidean"], key=lambda m: rows[m]["mean"])
        gains = np.subtract(rows[rival]["values"], rows[OURS]["values"])
        cells = [f"{rows[m]['mean']:.3g}" for m in (OURS, _OVER, "euclidean", best)]
        ratios.append([rows[m]["mean"] / rows[rival]["mean"] for m in (OURS, _OVER)])
        p = f"{_p(gains):.2g}" if len(gains) >= LEAST else "–"
        shares = [f"{ratio:.2f}" for ratio in ratios[-1]]
        lines.append([table["name"], len(gains), *cells[:3], best, cells[3], *shares, p])
    head = ["set", "units", OURS, _OVER, "euclidean", "best classifier with Viterbi", "its loss"]
    head += ["ours / better of both", "over probabilities / better of both", "p"]
    counts = [[sum(r[i] <= most for r in ratios) for most in (1.0, _FAR)] for i in (0, 1)]
    sentences = [
        f"{name.capitalize()} has less loss than the better of both on {less} of {len(ratios)} "
        f"sets, and at most {_FAR} of it on {few}."
        for name, (less, few) in zip((OURS, _OVER), counts)
    ]
    return [*markdown_table(head, lines), "", " ".join(sentences)]


def short_table(results: Results) -> list[str]:
    """Make a short table: ours, the three other methods with the best mean rank on sets with names,
    and the Euclidean metric."""
    head, cells = ranking(results)
    others = [method for method in cells if not is_ours(method)]
    chosen = dict.fromkeys([OURS, *others[:3], "euclidean"])
    return markdown_table(["method", *head[:5]], [[m, *cells[m][:5]] for m in chosen])


def size(results: Results) -> list[str]:
    """Return a sentence that tells how many sets, sequences and methods there are, and how long the
    league took."""
    sets = [table["name"] for table in results["tables"] if table["main"]]
    rows = [row for row in results["rows"] if row["measure"] == MEASURE]
    hours = sum(row["seconds"] for row in rows) / 3600
    return [
        f"{len(sets)} data sets, {results['sequences']} sequences, "
        f"{len({row['method'] for row in rows})} methods, {hours:.1f} hours of one processor."
    ]


def age(results: Results) -> list[str]:
    """Return a sentence that tells whether the rows were made with the default of today."""
    if is_older(results):
        command = f"python -m experiments.run experiment={results['name']}"
        return [f"**Older default:** `Segmenter()` answers otherwise since `{command}` was run."]
    return ["These rows are of the default of today."]


def lost(results: Results) -> list[str]:
    """Make a table that lists for every set the methods with a smaller mean loss than ours, and
    their loss divided by ours.

    The last column is the ratio that :func:`on_other_units` returns.
    """
    found, lines, ahead = means(results), [], 0
    for table, rows in main_rows(results):
        name, mine = table["name"], rows[OURS]["mean"]
        ratio = on_other_units(rows)
        ahead += ratio > 1.0
        better = {m: v[name] for m, v in found.items() if name in v and v[name] < mine - 1e-9}
        words = [f"{m} ({better[m] / mine:.2f})" for m in sorted(better, key=better.__getitem__)]
        if words:
            lines.append([name, len(rows[OURS]["units"]), ", ".join(words), f"{ratio:.2f}"])
    head = ["set", "units", "better than ours (share of our loss)"]
    head.append("the best rival on half of the units, on the other half")
    sentence = f"The last column is above 1 on {ahead} of all {len(found[OURS])} sets."
    return [*markdown_table(head, lines), "", sentence]


def on_other_units(rows: Mapping[str, Mapping[str, Any]], n_halves: int = 1000) -> float:
    """Choose the best other method on half of the units; compare it with ours on the other half.

    Returns the loss of the chosen methods divided by that of ours, both averaged over random
    halves. The least of many means is partly luck. If the ratio is above 1, other methods are ahead
    only on the units on which they were chosen.

    Parameters
    ----------
    rows : mapping of methods to rows of results
    n_halves : int
        Number of random divisions into halves, each used both ways.
    """
    mine = np.array(rows[OURS]["values"])
    others = np.array([r["values"] for m, r in rows.items() if m not in (OURS, ONE)])
    random, chosen, ours = np.random.default_rng(0), 0.0, 0.0
    for _ in range(n_halves):
        order = random.permutation(len(mine))
        half = order[: len(mine) // 2], order[len(mine) // 2 :]
        for here, there in (half, half[::-1]):
            best = others[:, here].mean(axis=1).argmin()
            chosen += others[best, there].mean()
            ours += mine[there].mean()
    return chosen / ours


def metrics_table(results: Results) -> list[str]:
    """Make a table of the loss on every set with one kind of metric under the same views, penalties
    and compromise, and with the Euclidean metric alone.

    The last line has the geometric mean of the losses, divided by the losses of the identity.
    """
    found = {m.removeprefix(_ALONE): row for m, row in means(results).items() if _ALONE in m}
    kinds = ["identity", *(kind for kind in found if kind != "identity")]
    found["Euclidean, one model"] = means(results)["euclidean"]
    shown = [*kinds, "Euclidean, one model"]
    sets = [name for name in found["identity"] if all(name in found[kind] for kind in shown)]
    table = np.array([[max(found[kind][name], 1e-9) for kind in shown] for name in sets])
    lines = [[name, *(f"{loss:.3g}" for loss in row)] for name, row in zip(sets, table)]
    shares = np.exp(np.log(table / table[:, :1]).mean(axis=0))
    lines.append(["geometric mean, share of identity", *(f"{share:.2f}" for share in shares)])
    return markdown_table(["set", *shown], lines)


def against_ours(results: Results, named: bool = False) -> dict[str, float]:
    """Compare every other method with ours by Wilcoxon's signed-rank test over sets, and return the
    p-values, with Holm's correction for the number of methods. Only sets with six test units or
    more count."""
    sets, methods, table = losses(results, named)
    if OURS not in methods:
        return {}
    sizes = {row["table"]: len(row["units"]) for row in results["rows"]}
    table = table[[sizes[name] >= LEAST for name in sets]]
    mine = table[:, methods.index(OURS)]
    others = [i for i, method in enumerate(methods) if not is_ours(method)]
    return dict(zip((methods[i] for i in others), holm([_p(table[:, i] - mine) for i in others])))


def planned_table(results: Results) -> list[str]:
    """Make the table of the comparisons that were set in advance.

    It has the number of sets on which ours has less loss. For sets with six test units and more it
    has the geometric mean of the ratio of losses, and the p-value of Wilcoxon's test over sets,
    with Holm's correction for these comparisons.
    """
    lines, ps = [], []
    for rival in _PLANNED:
        pairs = [(of[OURS], of[rival]) for _, of in main_rows(results) if {OURS, rival} <= set(of)]
        means = [(a["mean"], b["mean"]) for a, b in pairs if len(a["units"]) >= LEAST]
        mine, theirs = np.array(means).reshape(-1, 2).T
        ahead = f"{sum(a['mean'] < b['mean'] for a, b in pairs)} of {len(pairs)}"
        share = f"{np.exp(np.mean(np.log(mine / theirs))):.2f}" if means else "–"
        lines.append([rival, ahead, len(means), share])
        ps.append(_p(mine - theirs) if means else 1.0)
    head = ["rival", "sets where ours has less loss", "sets with six units", "ours / rival"]
    return with_p(head, lines, ps)


def paired_table(results: Results, reference: str = OURS) -> list[str]:
    """Make a table of the loss of a reference on every set, and of what every other method loses
    more, paired over units: the mean with its standard error.

    The last line counts the sets on which a method loses more or less than the reference by more
    than one standard error.
    """
    return _differences(results, reference, None, within_error)


def ensembles_table(results: Results) -> list[str]:
    """Make the table of :func:`paired_table` for other ensembles of the same members, and for
    ensembles of other methods.

    Instead of standard errors it has 95 % confidence intervals, for sets with six units or more.
    The last line counts the sets whose interval does not contain 0.
    """
    return _differences(results, OURS, _ENSEMBLES, within_interval)


def is_there(results: Results, method: str) -> bool:
    """Return whether some set has a row of a method."""
    return any(row["method"] == method for row in results["rows"])


def _differences(
    results: Results, reference: str, methods: Sequence[str] | None, spread: Any
) -> list[str]:
    found = [row for _, rows in main_rows(results) for row in rows]
    columns = [one for one in dict.fromkeys(methods or found) if one != reference]
    lines, counts = [], {method: [0, 0] for method in columns}
    for table, rows in main_rows(results):
        if reference not in rows:
            continue
        mine, cells = rows[reference], list[str]()
        for method in columns:
            row = rows.get(method)
            if row is None or row["units"] != mine["units"]:
                cells.append("–")
                continue
            gains = np.subtract(row["values"], mine["values"])
            low, high, text = spread(gains)
            counts[method][0] += low > 0
            counts[method][1] += high < 0
            cells.append(text)
        lines.append([table["name"], len(mine["units"]), f"{mine['mean']:.3g}", *cells])
    lines.append(["more, less", "", "", *(f"{more}, {less}" for more, less in counts.values())])
    return markdown_table(["set", "units", reference, *columns], lines)


def within_error(gains: NDArray) -> tuple[float, float, str]:
    """Return the ends of a mean plus and minus its standard error, and the text of a cell."""
    mean, error = float(gains.mean()), standard_error(gains)
    if error is None:
        return -np.inf, np.inf, f"{mean:+.2g}"
    return mean - error, mean + error, f"{mean:+.2g} ± {error:.2g}"


def within_interval(gains: NDArray) -> tuple[float, float, str]:
    """Return a 95 % confidence interval of a mean, by the bootstrap over units, and the text of a
    cell."""
    if len(gains) < LEAST:
        return -np.inf, np.inf, f"{gains.mean():+.2g}"
    drawn = np.random.default_rng(0).integers(len(gains), size=(10_000, len(gains)))
    low, high = np.quantile(gains[drawn].mean(axis=1), [0.025, 0.975])
    return low, high, f"{gains.mean():+.2g} [{low:+.2g}, {high:+.2g}]"


def _p(difference: NDArray) -> float:
    return float(wilcoxon(difference).pvalue) if np.any(np.abs(difference) > 1e-12) else 1.0


def draw(results: Results) -> Figure:
    """Plot the mean ranks on sets with names. The circle of a method is hollow if its losses differ
    significantly from ours."""
    ranks, p = mean_ranks(results, named=True), against_ours(results, named=True)
    title = f"Mean rank over {len(losses(results, True)[0])} data sets with names: less is better"
    ax = canvas(None, (7.6, 1.2 + 0.27 * len(ranks)), title)
    differ = {method for method in ranks if p.get(method, 1.0) < 0.05}
    for y, (method, rank) in enumerate(ranks.items()):
        fill: Any = "none" if method in differ else "full"
        ax.plot([rank], [-y], "o", color=INK, markersize=5, fillstyle=fill)
        strong = "bold" if is_ours(method) else "normal"
        ax.text(rank + 0.3, -y, f"{method}  {rank:.1f}", va="center", size=8.5, weight=strong)
    ax.set_xlim(0, len(ranks) + 6)
    ax.set_yticks([])
    hollow = "; hollow: differs from ours, Wilcoxon over sets, Holm-corrected, p < 5 %"
    ax.set_xlabel("mean rank" + hollow * bool(differ))
    return figure_of(ax)
