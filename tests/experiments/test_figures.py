"""experiments/figures.py: what is shown in README.md and docs/ is what committed results give."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from experiments.figures import DRAWN, TAKEN, draw, main, other_pages, unmarked
from experiments.harness import committed
from experiments.harness.committed import COMMITTED, KEY, default_losses, is_older
from experiments.harness.results import read_results
from experiments.league.ranks import age
from experiments.pages.pictures import ROOT, digest, texts_of

DIGIT = re.compile(r"\d")
MADE = re.compile(r"(?<=-->)[^<]*(?=<!-- /made -->)")
ALL_KINDS = "hapt_unknown", "raw_tables"  # committed results that tell the default for them
AS_COMMITTED = {
    kind: loss
    for name in ALL_KINDS
    for kind, loss in read_results(COMMITTED / f"{name}.json")[KEY].items()
}


@pytest.fixture(autouse=True)
def default_as_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages tell what has the default of today, whose fits take half a minute: one test does
    them."""
    monkeypatch.setattr(committed, "default_losses", lambda: AS_COMMITTED)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """README.md and docs of the repository, in a folder that may be written to."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "docs", root / "docs")
    shutil.copy(ROOT / "README.md", root)
    return root


def changed(text: str, place: int) -> str:
    """The text with the digit at this place made another one."""
    return f"{text[:place]}{(int(text[place]) + 1) % 10}{text[place + 1 :]}"


def assert_named(root: Path, capsys, wanted: list[str], before: dict[Path, bytes]) -> None:
    """The check tells all that was changed; the files are then again as they were before."""
    assert main(["--check"], root) == 1
    told = capsys.readouterr().err
    assert [sentence for sentence in wanted if sentence not in told] == []
    for path, content in before.items():
        path.write_bytes(content)


def test_what_is_changed_by_hand_is_named(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One digit of a page, a number without a mark, a digit of a record."""
    before, wanted, claim = {}, [], "It is 12.5 times as fast."
    written = {copied / page.relative_to(ROOT) for page in other_pages(ROOT)}
    for page in written | {*copied.glob("docs/results/*.md"), *copied.glob("docs/benchmarks/*.md")}:
        text = page.read_text(encoding="utf-8")
        spans = [match.span() for match in MADE.finditer(text)] if page in written else [(0, None)]
        digits = [m.start() for start, end in spans for m in DIGIT.finditer(text[:end], start)]
        if digits:
            before[page] = page.read_bytes()
            page.write_text(changed(text, digits[len(digits) // 2]), encoding="utf-8")
            wanted.append(f"{page.relative_to(copied)}: line")
    for name in ["index.rst", "faq.md", "gallery/README.rst", "gallery/trust/plot_penalty.py"]:
        page = copied / "docs" / name
        before.setdefault(page, page.read_bytes())
        text = page.read_text(encoding="utf-8")
        page.write_text(f"{text}\n{'# ' * (page.suffix == '.py')}{claim}\n", encoding="utf-8")
        wanted.append(f"{name}, line {text.count(chr(10)) + 2}: '12.5' has no mark")
    for page in copied.glob("docs/research/*.md"):
        before[page], text = page.read_bytes(), page.read_text(encoding="utf-8")
        page.write_text(changed(text, text.index(DIGIT.findall(text)[0])), encoding="utf-8")
        wanted.append(f"docs/research/{page.name}: line")
    assert_named(copied, capsys, wanted, before)


def test_other_results_and_pictures_are_named(copied, capsys) -> None:
    """One other digit of results, first, last or in between; none; one other pixel."""
    docs, wanted = copied / "docs", ["docs/results/hapt.md has no results beside it", "scaling.png"]
    missing = [docs / "results/hapt.json", docs / "benchmarks/scale/prediction.json"]
    digits = {"results/mocap6": 0.0, "benchmarks/indices": 1.0}
    digits |= {"results/beedance": 0.5, "benchmarks/streaming": 0.5}
    pictures = [docs / f"images/{name}.png" for name in ("lengths", "timeline")]
    edited = [*missing, *(docs / f"{name}.json" for name in digits), *pictures]
    before = {path: path.read_bytes() for path in edited}
    for name, share in digits.items():
        path = docs / f"{name}.json"
        text = path.read_text(encoding="utf-8")
        places = [match.start() for match in re.finditer(r"(?<=\d\.)\d", text)]
        path.write_text(changed(text, places[round(share * (len(places) - 1))]), encoding="utf-8")
        wanted.append(f"docs/{name}.md: line")
    for path in missing:
        path.unlink()
    for picture in pictures:
        texts = PngInfo()
        for key, value in texts_of(picture).items():
            texts.add_itxt(key, value)
        with Image.open(picture) as image:
            image.load()
        image.putpixel((5, 5), tuple(255 - v for v in image.getpixel((5, 5))))  # type: ignore
        image.save(picture, pnginfo=texts)
        wanted.append(f"{picture.name}, {digest(picture)}")
    assert_named(copied, capsys, wanted, before)


@pytest.mark.parametrize("name", DRAWN)
def test_pictures_are_those_that_are_drawn_today(name: str, copied: Path) -> None:
    picture = copied / f"docs/images/{name}.png"
    if not picture.is_file():
        pytest.skip("its results are not committed yet")
    before = picture.read_bytes()
    title, shown = texts_of(picture)["Title"], np.asarray(Image.open(picture).convert("RGB"), int)
    draw(name, copied / "docs")
    again = np.asarray(Image.open(picture).convert("RGB"), int)
    assert texts_of(picture)["Title"] == title
    assert again.shape == shown.shape
    # a digit has more pixels than that; rounding of other processors has less
    assert np.count_nonzero(np.abs(again - shown).max(axis=2) > 8) < 16
    picture.write_bytes(before)


def test_a_run_is_published_without_paths_of_its_machine_and_all_is_made_again(
    copied: Path, tmp_path: Path
) -> None:
    page, source = copied / "README.md", DRAWN["scaling"][0]
    picture, results = copied / "docs/images/scaling.png", copied / f"docs/{source}.json"
    text, before = page.read_text(encoding="utf-8"), picture.read_bytes()
    assert texts_of(picture)["Source"] == f"{source}.json {digest(results)}"
    emptied = re.sub(
        r"(<!-- made: .+? -->)(\n?).*?<!-- /made -->", r"\1\2<!-- /made -->", text, flags=re.DOTALL
    )
    assert len(emptied) < len(text)
    page.write_text(emptied, encoding="utf-8")
    picture.unlink()
    run = json.loads((ROOT / "docs/results/hapt.json").read_text(encoding="utf-8"))
    run["config"]["dataset"]["root"] = "/somewhere/on/this/machine/hapt"
    run["command"] = "python -m experiments.run experiment=hapt outputs=/somewhere n_jobs=1"
    (tmp_path / "results.json").write_text(json.dumps(run), encoding="utf-8")
    with pytest.raises(ValueError, match=r"results of 'synthetic', got the results of 'hapt'"):
        main([f"synthetic={tmp_path / 'results.json'}"], copied)
    assert main([f"hapt={tmp_path / 'results.json'}"], copied) == 0
    published = json.loads((copied / "docs/results/hapt.json").read_text(encoding="utf-8"))
    assert published["config"]["dataset"]["root"] == "hapt"
    assert published["command"] == "python -m experiments.run experiment=hapt n_jobs=1"
    assert page.read_text(encoding="utf-8") == text
    assert texts_of(picture)["Title"] in (copied / "docs/benchmarks/scale.md").read_text("utf-8")
    picture.write_bytes(before)
    assert main(["--check"], copied) == 0


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("It takes 3 s, or 12.5 % of 1 000 ms.", ["3", "12.5", "1 000"]),
        ("`0.5` and section 6.1, Eq. (9), Python 3.11 and [a](b/1.5.md), 300 features", ["300"]),
        (
            "1. as Xing et al. (2002), Bezdek & Pal 1998 have it: 0 to 1, not 10 of 2000",
            ["10", "2000"],
        ),
        ("<!-- made: x -->0.5<!-- /made --> of <!-- said: the paper -->1.5 s<!-- /said -->", []),
        ("a ± of 3 ± .1, 16–19", ["3", ".1", "16", "19"]),
        ("T^1.03, x² 2-4 of 1/3, −7 %, -8 %, (μ/2) 1e-16", ["1.03", "2", "4", "3", "7", "8"]),
        ("scikit-learn 1.9 and well-known 1.9", ["1.9"]),
    ],
)
def test_measured_numbers_without_a_mark_are_named(text: str, numbers: list[str]) -> None:
    assert [number for _, number in unmarked(text)] == numbers


def test_every_picture_of_a_page_is_made_or_named() -> None:
    pictures = {path.stem for path in (ROOT / "docs/images").glob("*.png")}
    assert pictures - set(DRAWN) - set(TAKEN) == set()


@pytest.mark.parametrize("name", AS_COMMITTED)
def test_every_data_set_tells_another_default(name: str) -> None:
    changed = {key: loss * (1.1 if key == name else 1.001) for key, loss in AS_COMMITTED.items()}
    newest, older = {"name": "league", KEY: {**changed, name: AS_COMMITTED[name]}}, {KEY: changed}
    assert (is_older(newest), is_older(older), is_older({})) == (False, True, True)
    assert age(newest) != age({"name": "league"})
    assert "experiment=league" in age({"name": "league"})[0]


def test_committed_tables_of_the_default_are_of_the_default_of_today(monkeypatch) -> None:
    """Run their commands again after a change of the default."""
    monkeypatch.setattr(committed, "default_losses", default_losses)
    assert AS_COMMITTED.keys() == default_losses().keys()
    tables = {file.stem: read_results(file) for file in COMMITTED.glob("*.json")}
    assert not [name for name, results in tables.items() if KEY in results and is_older(results)]
