"""Fill the results tables of README.md from the results.json files of runs.

    python -m experiments.readme_tables                                    # from docs/results
    python -m experiments.readme_tables synthetic=outputs/synthetic/.../results.json
    python -m experiments.readme_tables --check                            # only compare

A table stands between ``<!-- results:NAME -->`` and ``<!-- /results -->``. A file that is given is
copied to ``docs/results/NAME.json`` first, folders of this machine left out of its configuration,
so that the published numbers and what they came from are committed together.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from experiments.report import read_results, results_markdown

ROOT = Path(__file__).resolve().parents[1]
_PLACE = re.compile(r"(<!-- results:(\S+) -->\n).*?(<!-- /results -->)", re.DOTALL)


def fill(text: str, tables: Mapping[str, str]) -> str:
    """``text`` with the tables put into their places; places without a table stay as they are.

    Raises
    ------
    ValueError
        If a table has no place.
    """
    missing = sorted(set(tables) - {match[2] for match in _PLACE.finditer(text)})
    if missing:
        raise ValueError(
            f"readme_tables needs a place for every table, got none for {', '.join(missing)}; add "
            f"a line '<!-- results:{missing[0]} -->' and a line '<!-- /results -->'."
        )
    return _PLACE.sub(lambda m: f"{m[1]}{tables[m[2]]}{m[3]}" if m[2] in tables else m[0], text)


def table(results: Mapping[str, Any]) -> str:
    """The Markdown table of one run: methods by number of segments estimated and given."""
    lines = results_markdown(results).splitlines()
    return "".join(f"{line}\n" for line in lines if line.startswith("|"))


def portable(value: Any) -> Any:
    """``value`` with every absolute path in it cut to its last part."""
    kinds: dict[type, Callable[[Any], Any]] = {
        dict: lambda items: {key: portable(item) for key, item in items.items()},
        list: lambda items: [portable(item) for item in items],
        str: lambda text: PurePath(text).name if PurePath(text).is_absolute() else text,
    }
    return kinds.get(type(value), lambda other: other)(value)


def publish(name: str, source: Path, folder: Path) -> Path:
    """Copy a results.json to ``folder/NAME.json``, its schema checked and its paths cut.

    Raises
    ------
    ValueError
        If the file is no results.json, or of another experiment.
    """
    results = read_results(source)
    if results["experiment"] != name:
        raise ValueError(
            f"readme_tables needs the results of {name!r} for the place {name!r}, got those of "
            f"{results['experiment']!r} in {source}."
        )
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.json"
    target.write_text(json.dumps(portable(results), indent=1) + "\n", encoding="utf-8")
    return target


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Fill README.md, or with ``--check`` return 1 if it is not up to date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", metavar="NAME=FILE", help="results.json of a run")
    parser.add_argument("--check", action="store_true", help="change nothing, only compare")
    options = parser.parse_args(arguments)
    folder = root / "docs" / "results"
    for item in options.files:
        name, separator, file = item.partition("=")
        if not separator:
            parser.error(f"needs NAME=FILE, got {item!r}")
        publish(name, Path(file), folder)
    readme = root / "README.md"
    text = readme.read_text(encoding="utf-8")
    tables = {file.stem: table(read_results(file)) for file in sorted(folder.glob("*.json"))}
    filled = fill(text, tables)
    if options.check:
        return int(filled != text)
    readme.write_text(filled, encoding="utf-8")
    print(f"README.md holds {len(tables)} table(s): {', '.join(tables) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
