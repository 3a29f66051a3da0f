"""Write every number, table, caption and picture of README.md and docs/ that a command makes.

    python -m experiments.figures                                       # from committed results
    python -m experiments.figures hapt=outputs/hapt/DATE/results.json   # commit a run
    python -m experiments.figures --check                               # compare, change nothing

Results are committed as ``docs/results/NAME.json`` (experiments) and ``docs/benchmarks/NAME.json``.
Next to each file the command writes the page ``NAME.md``, which ends with the digest of the file,
so that no page is older than its numbers. Generated text on all other pages is between ``<!-- made:
EXPRESSION -->`` and ``<!-- /made -->``. EXPRESSION is Jinja and calls methods of
:class:`Committed`. Numbers from other sources are between ``<!-- said: SOURCE -->`` and ``<!--
/said -->``. The check refuses all other numbers, except in code and references. The check also
reads reStructuredText and the gallery, and refuses pages and pictures without results. A picture
holds the digest of its data. The page of a picture holds the digest of this picture, and a record
in ``docs/research`` holds the digest of its text.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import Any

import jinja2
import numpy as np
from omegaconf import OmegaConf

from experiments.benchmarks.benchmark import cell, page_of
from experiments.harness.command_line import CONFIGS
from experiments.harness.report import results_markdown
from experiments.harness.results import (
    MEASURE,
    ONE,
    OURS,
    Cell,
    read_results,
    results_table,
    rows_of,
    standard_error,
)
from experiments.harness.wording import headline, markdown_table, table_markdown
from experiments.league import ranks
from experiments.pages.house_map import house_picture, house_table
from experiments.pages.pictures import ROOT, digest, take, texts_of, title_of

_PICTURES: Any = OmegaConf.to_container(OmegaConf.load(Path(CONFIGS) / "pictures.yaml"))
DRAWN, TAKEN = _PICTURES["drawn"], _PICTURES["taken"]  # here, and by runs
_NOT_WRITTEN = ("results", "benchmarks", "research")  # made, or kept as a record
_MADE = re.compile(r"<!-- made: (.+?) -->(\n?)(.*?)<!-- /made -->", re.DOTALL)
# numbers that the check allows: in code, marked parts and links; of sections, lists and versions;
# years of references; 0 and 1, which define scales ("1 for equal segmentations")
_FREE = re.compile(
    r"```.*?```|`[^`\n]*`|<!-- (made|said): .*?<!-- /\1 -->|\]\([^)]*\)|<[!/a-zA-Z][^>\n]*>|"
    r"^ *\d\. |(?:[A-Z]\w+|al\.) \(?(?:19|20)\d\d\b|"
    r"(?:[Ss]ections?|Eqs?\.|Figure|Table|Python|BSD|Theorem|scikit-learn|tsseg-eval) \(?[\d.]+\)?"
    r"(?: and [\d.]+)?",
    re.DOTALL | re.MULTILINE,
)
_NUMBER = re.compile(
    r"(?<![\w.])(?<![^\W\d][/-])(?![01](?!\.?\d| \d{3}))(?:\d{1,3}(?: \d{3})+|\d*\.?\d+)"
)
# not prose in reStructuredText: blocks of code, directives, their options, and literals
_DIRECTIVE = re.compile(
    r"^( *)\.\. code-block::.*\n(?:\1 +.*\n|\n)*|^ *\.\. .*$|^ *:[\w-]+:.*$|``[^`]*``", re.MULTILINE
)
_DIGEST = re.compile(r"\s*<!-- digest: \w+ -->\s*\Z")
_AWAITED = "Not run with this version yet (`{}`)."


@cache
def _read_at(file: Path, content: str) -> dict[str, Any]:
    return read_results(file)


def results_in(file: Path) -> dict[str, Any]:
    """Read a file of results. Many pages show the same file, so it is read again only if its digest
    has changed."""
    return _read_at(file, digest(file))


class Committed:
    """Makes parts of pages from the committed results.

    Parameters
    ----------
    docs : path
        The folder of ``results``, ``benchmarks`` and ``images``.
    folder : path
        Folder of the page, to which links are relative.
    """

    def __init__(self, docs: Path, folder: Path) -> None:
        self.docs, self.folder = docs, folder

    def results(self, name: str) -> dict[str, Any]:
        """Return the results of an experiment."""
        return results_in(self.docs / "results" / f"{name}.json")

    def link(self, file: str, text: str) -> str:
        """Return a link to a file of ``docs``."""
        return f"[{text}]({os.path.relpath(self.docs / file, self.folder)})"

    def page(self, stem: str) -> str:
        """Return a link to the page of committed results, such as "benchmarks/solvers"."""
        file = f"{stem}.md"
        return self.link(file, file) if (self.docs / file).is_file() else _AWAITED.format(stem)

    def pages(self, folder: str) -> str:
        """List links to all pages of a folder of ``docs``. The text of a link is the name of the
        file, or the title if the page is a record."""
        links = []
        for file in sorted((self.docs / folder).glob("*.md")):
            words = file.stem.replace("_", " ")
            if folder == "research":
                words = file.read_text("utf-8").partition("\n")[0].removeprefix("# ")
            links.append(self.link(f"{folder}/{file.name}", words))
        return ", ".join(links)

    def headline(self, name: str) -> str:
        """Return the headline of an experiment, and the link to its page."""
        return f"{headline(self.results(name))} {self.link(f'results/{name}.md', 'All of it')}."

    def setup(self, name: str) -> str:
        """Return the first sentence of an experiment's protocol, which describes its training and
        test data."""
        return f"{self.results(name)['protocol'].partition('. ')[0].rstrip('.')}."

    def sizes(self, name: str, words: str) -> str:
        """Fill a text with the options of an experiment's loader."""
        return words.format(**self.results(name)["config"]["dataset"]["loader"])

    def sentences(self, name: str) -> str:
        """List the sentences that an experiment states about its tables."""
        lines = [f"* {text}" for text in self.results(name)["sentences"]]
        return "\n".join([*lines, "", self.link(f"results/{name}.md", "All of it")])

    def table(self, name: str) -> str:
        """Return the first table of an experiment."""
        results = self.results(name)
        return "\n".join(table_markdown(results, results["tables"][0]))

    def loss(self, name: str, method: str, column: str) -> str:
        """Return the mean loss and standard error of a method, from the first table of an
        experiment."""
        return str(results_table(self.results(name))[method][column])

    def side_by_side(self, names: Mapping[str, str], methods: Mapping[str, str]) -> str:
        """Make a table with methods as columns and experiments as rows. ``methods`` and ``names``
        map methods and experiments to the words that the page shows."""
        lines = []
        for name, words in names.items():
            results = self.results(name)
            column = next(iter(results["tables"][0]["columns"]))
            cells = {k: row[column] for k, row in results_table(results).items() if column in row}
            shown = [str(cells[k]) if k in cells else "–" for k in methods]
            lines.append([self.link(f"results/{name}.md", words), *shown])
        return "\n".join(markdown_table(["data", *methods.values()], lines))

    def consensus(self) -> str:
        """Make a table that compares the rows ours and ours/one model of the experiments. There is
        a line for every main table of ‖M − N‖² with both rows. A line shows the mean paired
        difference of the two rows, with its standard error."""
        lines = []
        for file in sorted(self.docs.glob("results/*.json")):
            results = results_in(file)
            for table in results["tables"] if file.stem.partition("_")[0] != "league" else ():
                column = next(iter(table["columns"]))
                rows = rows_of(results, table, column)
                pair = [row for name in (OURS, ONE) for row in rows if row["method"] == name]
                compared = table["main"] and table["measure"] == MEASURE and len(pair) == 2
                if not compared or pair[0]["units"] != pair[1]["units"]:
                    continue
                gains = np.subtract(*(row["values"] for row in pair))
                gain = Cell(gains.mean(), standard_error(gains), False, False, False)
                words = file.stem.replace("_", " ")
                words += f", {table['name']}" if table["name"] != "test" else ""
                cells = [results_table(results, table)[name][column] for name in (OURS, ONE)]
                link = self.link(f"results/{file.stem}.md", words)
                lines.append([link, len(gains), *cells, gain])
        head = ["data", "units", "ours", "one model", "ours − one model"]
        return "\n".join(markdown_table(head, lines))

    def league(self, part: str, name: str = "league", **options: Any) -> str:
        """Call the function ``part`` of :mod:`experiments.league.ranks` on the results of the
        league, and return its lines."""
        if not (self.docs / "results" / f"{name}.json").is_file():
            return _AWAITED.format(f"results/{name}")
        return "\n".join(getattr(ranks, part)(self.results(name), **options))

    def rows(self, name: str, place: int) -> list[dict[str, Any]]:
        """Return the rows of a table of a benchmark."""
        text = (self.docs / "benchmarks" / f"{name}.json").read_text(encoding="utf-8")
        return json.loads(text)["tables"][place]["rows"]

    def benchmark(self, name: str, place: int = 0, columns: Sequence[str] = ()) -> str:
        """Return a table of a benchmark. If ``columns`` are given, only columns whose names end
        with one of them are shown."""
        rows = self.rows(name, place)
        names = list(dict.fromkeys(key for row in rows for key in row))
        shown = [key for end in columns for key in names if key.endswith(end)] or names
        cells = [[cell(row.get(key, "")) for key in shown] for row in rows]
        return "\n".join(markdown_table(shown, cells))

    def value(self, name: str, column: str, texts: str | Sequence[str], place: int = 0) -> str:
        """Return one number of a benchmark, from the given column of the first row that has all of
        ``texts`` in its cells."""
        wanted = {texts} if isinstance(texts, str) else set(texts)
        rows = self.rows(name, place)
        return cell(next(row for row in rows if wanted <= set(map(cell, row.values())))[column])

    def picture(self, name: str) -> str:
        """Return a picture, with its drawn title as alternative text."""
        file = f"images/{name}.png"
        if not (self.docs / file).is_file():
            return self.page((DRAWN | TAKEN)[name][0].split()[0])
        return f"!{self.link(file, texts_of(self.docs / file)['Title'])}"


def filled(text: str, committed: Committed) -> str:
    """Make everything between ``<!-- made: … -->`` and ``<!-- /made -->`` on a page anew."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    names = {name: getattr(committed, name) for name in dir(committed) if name[0] != "_"}
    names["house"] = house_table

    def made(match: re.Match[str]) -> str:
        expression, line = match[1], match[2]
        try:
            value = environment.from_string("{{ " + expression + " }}").render(names).strip()
        except FileNotFoundError as missing:  # results that are not committed yet
            file = Path(missing.filename).relative_to(committed.docs).with_suffix("")
            command = f"python -m experiments.run experiment={file.name}"
            value = _AWAITED.format(command if file.parent.name == "results" else file)
        return f"<!-- made: {expression} -->{line}{value}{line}<!-- /made -->"

    return _MADE.sub(made, text)


def prose(page: Path) -> str:
    """Return the prose of a page: the comments of a gallery file, or reStructuredText without
    code."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".md":
        return text
    if page.suffix == ".py":
        title, _, code = text.removeprefix('"""').partition('"""')
        text = title + re.sub(r"^[^#\n].*$", "", code, flags=re.MULTILINE)
    return _DIRECTIVE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def unmarked(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every number on a page. Numbers in code, in marked parts and
    in the other exceptions of :data:`_FREE` are left out."""
    kept = _FREE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for place, line in enumerate(kept.splitlines(), start=1):
        for match in _NUMBER.finditer(line):
            yield place, match[0].strip()


def results_of(name: str, docs: Path) -> list[Path]:
    """Return the files with the results that a picture shows."""
    return [docs / f"{stem}.json" for stem in (DRAWN | TAKEN)[name][0].split()]


def source_of(name: str, docs: Path) -> str:
    """Return the names of the result files, and their digest, as a picture stores them."""
    files = results_of(name, docs)
    names = " ".join(str(file.relative_to(docs)) for file in files)
    return f"{names} {digest(*files)}"


def drawn_pages(docs: Path) -> dict[Path, str]:
    """Make the page of every committed result: its report, its pictures, and the digests of the
    files. A folder of ``benchmarks`` has one page for the parts of a benchmark."""
    texts = {page_at(file): "" for file in docs.glob("benchmarks/**/*.json")}
    for page in texts:
        parts = {
            "" if file.parent == page.parent else file.stem: json.loads(file.read_text("utf-8"))
            for file in files_of(page)
        }
        texts[page] = page_of(page.stem, parts)
    for file in docs.glob("results/*.json"):
        texts[file.with_suffix(".md")] = results_markdown(results_in(file))
    pages = {}
    for page, text in texts.items():
        committed, files = Committed(docs, page.parent), files_of(page)
        sources = {name: results_of(name, docs)[0] for name in DRAWN | TAKEN}
        there = [
            name
            for name, source in sources.items()
            if source in files and (docs / "images" / f"{name}.png").is_file()
        ]
        links = [file.relative_to(page.parent) for file in files]
        made_from = [f"[{link}]({link}), {digest(file)}" for link, file in zip(links, files)]
        made_from += [f"{name}.png, {digest(docs / 'images' / f'{name}.png')}" for name in there]
        end = f"Made by `make figures` from {'; '.join(made_from)}.\n"
        pages[page] = "\n".join([text, *(f"{committed.picture(name)}\n" for name in there), end])
    return pages


def page_at(file: Path) -> Path:
    """Return the page that shows the results of a benchmark."""
    folder = file.parent
    return file.with_suffix(".md") if folder.name == "benchmarks" else folder.with_suffix(".md")


def files_of(page: Path) -> list[Path]:
    """Return the files with the results that a page shows: one, or one for each part."""
    file = page.with_suffix(".json")
    return [file] if file.is_file() else sorted(page.with_suffix("").glob("*.json"))


def other_pages(root: Path) -> list[Path]:
    """Return README.md and the guides, that is, all pages that people write except for records."""
    docs = root / "docs"
    guides = [page for page in docs.rglob("*.md") if page.parent.name not in _NOT_WRITTEN]
    return [root / "README.md", *sorted(guides)]


def kept(text: str) -> str:
    """Append the digest of a record of ``docs/research`` to its text, so that changes are
    noticed."""
    record = _DIGEST.sub("", text).rstrip()
    shown = hashlib.sha256(record.encode("utf-8")).hexdigest()[:12]
    return f"{record}\n\n<!-- digest: {shown} -->\n"


def stale_pictures(docs: Path) -> dict[str, list[Path]]:
    """Find the pictures that do not show the committed results. For each picture, return the files
    with the results that it should show."""
    stale = {}
    for name in DRAWN | TAKEN:
        picture, results = docs / "images" / f"{name}.png", results_of(name, docs)
        shown = texts_of(picture).get("Source", "") if picture.is_file() else None
        there = all(file.is_file() for file in results)
        if shown != (source_of(name, docs) if there else None):
            stale[name] = results
    return stale


def draw(name: str, docs: Path) -> None:
    """Draw one picture of :data:`DRAWN` from its results."""
    module, _, call = f"experiments.{DRAWN[name][1]}".rpartition(".")
    records = [json.loads(file.read_text("utf-8")) for file in results_of(name, docs)]
    figure = getattr(import_module(module), call)(*records)
    target = docs / "images" / f"{name}.png"
    target.parent.mkdir(exist_ok=True)
    texts = {"Title": title_of(figure), "Source": source_of(name, docs)}
    figure.savefig(target, dpi=120, metadata=texts | {"Software": None})


def portable(value: Any) -> Any:
    """Remove the folders of this machine from ``value``. Paths are cut to their last part, and
    ``outputs=`` is removed."""
    if isinstance(value, dict):
        return {key: portable(item) for key, item in value.items()}
    if isinstance(value, list):
        return list(map(portable, value))
    if not isinstance(value, str):
        return value
    if PurePath(value).is_absolute():
        return PurePath(value).name
    return re.sub(r" outputs=\S+|(?<=[= ])/\S*/(?=\S)", "", value)  # of a command


def publish(name: str, source: Path, docs: Path) -> None:
    """Check the results of a run, and copy results and pictures to ``docs`` without local paths.

    Raises
    ------
    ValueError
        If the file is not a results.json, or holds the results of another experiment.
    """
    results = read_results(source)
    if results["name"] != name:
        raise ValueError(
            f"figures needs the results of {name!r}, got the results of "
            f"{results['name']!r} in {source}."
        )
    target = docs / "results" / f"{name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(portable(results), indent=1, ensure_ascii=False)
    target.write_text(text + "\n", encoding="utf-8")
    for picture, (file, pattern) in TAKEN.items():
        for path in sorted(source.parent.glob(pattern))[:1] if file == f"results/{name}" else ():
            take(
                path, docs / "images" / f"{picture}.png", target, texts_of(path).get("Title", name)
            )


def differences(text: str, made: str) -> str:
    """Describe the first difference between two texts in words."""
    pairs = enumerate(zip_longest(text.splitlines(), made.splitlines(), fillvalue=""), start=1)
    place, (there, here) = next((p for p in pairs if p[1][0] != p[1][1]), (0, ("", "")))
    return f"line {place} is\n    {there}\n  and committed results give\n    {here}"


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Write everything, or with ``--check`` print the differences and return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", metavar="NAME=FILE", help="results.json of a run")
    parser.add_argument("--check", action="store_true", help="change nothing, only compare")
    options = parser.parse_args(arguments)
    docs, problems = root / "docs", []
    for item in options.files:
        name, separator, file = item.partition("=")
        if not separator:
            parser.error(f"needs NAME=FILE, got {item!r}")
        publish(name, Path(file), docs)
    for name, results in stale_pictures(docs).items():
        if name in DRAWN and all(file.is_file() for file in results) and not options.check:
            draw(name, docs)
        else:
            names = ", ".join(file.name for file in results)
            problems.append(f"docs/images/{name}.png shows other results than {names}")
    pages: dict[Path, str] = {}
    try:
        pages = drawn_pages(docs)
        for page in other_pages(root):
            text = page.read_text(encoding="utf-8")
            pages[page] = filled(text, Committed(docs, page.parent))
        pages[docs / "images" / "house.svg"] = house_picture()
        pages |= {page: kept(page.read_text("utf-8")) for page in docs.glob("research/*.md")}
        sources = {
            *docs.glob("*.rst"),
            *docs.glob("gallery/**/*.rst"),
            *docs.glob("gallery/**/*.py"),
        }
        for page in [*other_pages(root), *sorted(sources - {docs / "sg_execution_times.rst"})]:
            for line, number in unmarked(prose(page)):
                problems.append(f"{page.relative_to(root)}, line {line}: {number!r} has no mark")
    except (ValueError, OSError) as error:  # results that contradict themselves, or none
        problems.append(str(error))
    for folder in ("results", "benchmarks"):
        for page in set(docs.glob(f"{folder}/*.md")) - set(pages):
            problems.append(f"{page.relative_to(root)} has no results beside it; remove it")
    for page, made in pages.items():
        text = page.read_text(encoding="utf-8") if page.is_file() else ""
        if text == made:
            continue
        if options.check:
            problems.append(f"{page.relative_to(root)}: {differences(text, made)}")
        else:
            page.write_text(made, encoding="utf-8")
            print(f"{page.relative_to(root)} is made anew")
    for problem in problems:
        print(problem, file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
