"""Results know whether the default has changed since they were made."""

import pytest

from experiments.harness.committed import KEY, default_losses, is_older
from experiments.harness.results import read_results
from experiments.league.ranks import age
from experiments.pages.pictures import ROOT


def test_the_page_tells_that_rows_are_of_an_older_default() -> None:
    now = default_losses()
    assert all(0 <= loss < 20 for loss in now.values())
    newest, older = {"name": "league", KEY: dict(now)}, {"name": "league"}
    assert (is_older(newest), is_older(older)) == (False, True)
    assert age(newest) != age(older)
    assert "experiment=league" in age(older)[0]


@pytest.mark.parametrize("name", ["names", "boundaries", "many rows", "one signal", "few labels"])
def test_every_data_set_tells_another_default(name: str) -> None:
    changed = {
        key: loss * (1.1 if key == name else 1.001) for key, loss in default_losses().items()
    }
    assert is_older({KEY: changed})
    assert not is_older({KEY: {k: v * 1.001 for k, v in default_losses().items()}})


def test_committed_tables_of_the_default_are_of_the_default_of_today() -> None:
    """Run their commands again after a change of the default. The league, and that of unseen
    names, are from before tables knew their default, which their pages say."""
    folder = ROOT / "docs" / "results"
    committed = {file.stem: read_results(file) for file in folder.glob("*.json")}
    known = {name: results for name, results in committed.items() if KEY in results}
    assert "raw_tables" in known
    assert not [name for name, results in known.items() if is_older(results)]
