"""Figures are marked rightly, kept results come back as they were, the page needs nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reproduce.archive import Entry, Origin, load, save
from reproduce.plain import in_text
from reproduce.report import page
from reproduce.results import Figure, Goal, Picture, Result, Row, Table, figure

# A PNG of one black pixel.
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d494844520000000100000001080000000"
    "03a7e9b550000000a4944415408d763600000000200015e221bc70000000049454e44ae426082"
)


def result() -> Result:
    rows = [
        Row("noise 1", "near", {"Obj": Figure(5.6985, 0.0001, 10, "5.6984")}),
        Row("noise 1", "far & away", {"Obj": Figure(5.71, 0.0001, 10, "5.6984")}),
        Row("noise 4", "alone", {"Obj": Figure(7.0, 0.1, 10), "ED": Figure(0.5)}),
    ]
    return Result(
        [Table("a <table>", ["Obj", "ED"], rows, "what it is")],
        [Picture("pixel", "one pixel", PIXEL)],
        [Goal("to agree", "it does", True), Goal("to excel", "it does not", False)],
        ["nothing else was tried"],
    )


def entry() -> Entry:
    origin = Origin("0123456789ab", "2026-01-02 03:04 UTC", False, 1.5)
    return Entry("made-up", "A made-up table", origin, result())


@pytest.mark.parametrize(
    ("mean", "error", "printed", "beyond"),
    [
        (0.504, 0.0, "0.50", False),  # rounds to it
        (0.506, 0.0, "0.50", True),
        (0.506, 0.0006, "0.50", False),  # two standard errors and half a digit
        (0.5063, 0.0006, "0.50", True),
        (0.494, 0.0, "0.50", True),
        (0.505, 0.0, "0.50", False),
        (3.34e-8, 0.0, "3.3e-8", False),
        (3.36e-8, 0.0, "3.3e-8", True),
        (55.4064, 0.0, "55.406", False),
        (0.6, 0.0, None, False),
        (float("nan"), 0.0, "0.50", True),
    ],
)
def test_beyond_two_standard_errors_and_rounding(
    mean: float, error: float, printed: str | None, beyond: bool
) -> None:
    assert Figure(mean, error, 10, printed).beyond is beyond


def test_printed_mean_has_an_error_too_where_its_trials_are_known() -> None:
    # 0.026 away: 2.6 errors of ours, 1.84 of the difference of two means of 100 trials
    assert Figure(0.526, 0.01, 100, "0.5000").beyond
    assert not Figure(0.526, 0.01, 100, "0.5000", 100).beyond
    assert Figure(0.526, 0.01, 100, "0.5000", 400).beyond


def test_figure_is_the_mean_and_its_standard_error() -> None:
    found = figure([1.0, 2.0, 3.0, 6.0], "3.0")
    assert found.mean == 3.0
    assert found.error == pytest.approx((14.0 / 3.0 / 4.0) ** 0.5)
    assert (found.trials, found.printed) == (4, "3.0")


def test_text_shows_ours_printed_and_mark() -> None:
    text = in_text("A made-up table", "today", result())
    near, far = (next(line for line in text.splitlines() if name in line)
                 for name in ("near", "far"))  # fmt: skip
    assert "5.69850 (5.6984)" in near
    assert "*" not in near
    assert "5.71000 (5.6984)*" in far
    assert "[reached] to agree" in text
    assert "[NOT REACHED] to excel" in text


def test_kept_result_comes_back(tmp_path: Path) -> None:
    save(entry(), tmp_path)
    assert load("made-up", tmp_path) == entry()
    assert load("another", tmp_path) is None
    text = (tmp_path / "made-up.txt").read_text()
    assert "commit 0123456789ab" in text
    assert "2026-01-02" in text
    assert (tmp_path / "pixel.png").read_bytes() == PIXEL


class Links(HTMLParser):
    """Everything that a browser would fetch or follow, and the tags that are open."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [v or "" for k, v in attrs if k in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_report_is_self_contained() -> None:
    html = page([entry()], ["other: has not been run"])
    seen = Links()
    seen.feed(html)
    seen.close()
    assert not seen.open
    assert "script" not in seen.tags
    assert all(link.startswith(("data:image/png;base64,", "#")) for link in seen.links)
    assert "#made-up" in seen.links
    assert "url(" not in html
    assert "@import" not in html
    assert "a &lt;table&gt;" in html
    assert "other: has not been run" in html


def test_report_colours_what_agrees_and_what_does_not() -> None:
    html = page([entry()])
    assert len(re.findall("<td class='agrees'", html)) == 1
    assert len(re.findall("<td class='beyond'", html)) == 1
    assert "<b>1 of 2</b> printed figures agree" in html
    assert "<b>1 of 2</b> goals" in html
    assert "not reached: it does not" in html
