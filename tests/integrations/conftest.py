"""How many checks of every suite have passed, told at the end of a run."""

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per suite: passed, not applicable by its own tags, and failed."""
    counts: dict[str, Counter] = {}
    for outcome in ("passed", "skipped", "xfailed", "xpassed", "failed"):
        for report in terminalreporter.stats.get(outcome, []):
            suite = report.nodeid.partition("::test_")[2].partition("_checks")
            if suite[1]:
                counts.setdefault(suite[0], Counter())[outcome] += 1
    for suite, count in counts.items():
        passed, failed = count["passed"] + count["xpassed"], count["failed"]
        apart = f"{count['skipped'] + count['xfailed']} do not apply by its tags"
        line = f"{suite}: {passed} of {passed + failed} checks passed, {apart}"
        terminalreporter.write_line(line)
