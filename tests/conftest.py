"""What every test runs under: how hard Hypothesis tries, and folders that are not the user's."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

SOAK = os.environ.get("EDGEPERF_SOAK") == "1"

settings.register_profile("suite", max_examples=40, deadline=None, derandomize=True, database=None)
settings.register_profile("soak", max_examples=2000, deadline=None, database=None)
settings.load_profile("soak" if SOAK else "suite")


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results, configuration and caches of a test stay in its own folder, and the user's settings stay out."""
    for name in [name for name in os.environ if name.startswith("EDGEPERF_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for kind in ("CONFIG", "DATA", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / "home" / kind.lower()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Notes the trials of a property beside its report; other tests note theirs by ``record_property("trials", n)``."""
    report = yield
    statistics = getattr(item, "hypothesis_statistics", "")
    if call.when == "teardown" and statistics:
        report.user_properties.append(("trials", sum(map(int, re.findall(r"(\d+) passing", statistics)))))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """After a soak: how many trials each test had."""
    if not SOAK:
        return
    reports = [r for rs in terminalreporter.stats.values() for r in rs if getattr(r, "when", "") == "teardown"]
    trials = [(value, r.nodeid) for r in reports for name, value in r.user_properties if name == "trials"]
    terminalreporter.section(f"{sum(count for count, _ in trials)} trials of {len(trials)} properties")
    for count, nodeid in sorted(trials, reverse=True):
        terminalreporter.write_line(f"{count:>9}  {nodeid}")
