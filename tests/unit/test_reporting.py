"""What a job says, where it says it, and how it ends."""

import io
import json
import logging
import os
import pty
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from roquet.pipeline.errors import BadLake
from roquet.reporting import (
    Report,
    Reporter,
    ReportTable,
    progress_text,
    shown,
)

REPORT = Report(
    {"messages": 12_000, "is_complete": True, "lag": None},
    [ReportTable("by_queue", ("topic", "queue", "rate"), [("[red]orders", 0, 1234.56)])],
)


@pytest.fixture
def reporter() -> Reporter:
    return Reporter("roquet spark test", as_json=False)


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Standard error is one; what was written to it can be read."""
    ours, theirs = pty.openpty()
    with open(theirs, "w", encoding="utf-8") as stream:  # noqa: PTH123  A descriptor has no path.
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("TERM", "xterm")
        yield ours
    os.close(ours)


def read_until(screen: int, text: str) -> str:
    read = ""
    while text not in read:
        read += os.read(screen, 100_000).decode(errors="replace")
    return read


def test_a_result_is_a_table_on_standard_output(
    reporter: Reporter, capsys: pytest.CaptureFixture[str]
) -> None:
    reporter.finish(REPORT)
    out, err = capsys.readouterr()
    assert err == ""
    assert [line.split() for line in out.splitlines()] == [
        ["messages", "12,000"],
        ["is", "complete", "yes"],
        ["lag", "-"],
        [],
        ["by", "queue"],
        ["topic", "queue", "rate"],
        ["[red]orders", "0", "1,234.6"],
    ]


def test_a_result_for_machines_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    Reporter("roquet spark test", as_json=True).finish(REPORT)
    assert json.loads(capsys.readouterr().out) == {
        "messages": 12_000,
        "is_complete": True,
        "lag": None,
        "by_queue": [{"topic": "[red]orders", "queue": 0, "rate": 1234.56}],
    }


def test_times_for_machines_have_a_zone() -> None:
    moment = datetime(2026, 11, 16, 12, tzinfo=UTC)
    here = moment.astimezone().replace(tzinfo=None)
    report = Report({"at": moment}, [ReportTable("rows", ("at",), [(here,)])])
    text = "2026-11-16T12:00:00Z"
    assert json.loads(report.to_json()) == {"at": text, "rows": [{"at": text}]}


def test_away_from_a_terminal_progress_is_few_plain_lines_and_the_last_one(
    reporter: Reporter, capsys: pytest.CaptureFixture[str]
) -> None:
    with reporter.waiting("starting Spark"), reporter.progress("messages") as progress:
        progress.show(0)
        for done in range(1, 1000):
            progress.show(done, files=done)
    out, err = capsys.readouterr()
    assert out == ""
    first, second, last = err.splitlines()
    assert first == "roquet spark test: starting Spark ..."
    assert second == "roquet spark test: 0 messages"
    assert last.startswith("roquet spark test: 999 messages, files 999, ")


def test_on_a_terminal_progress_moves_and_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as screen:
        reporter = Reporter("roquet spark test", as_json=False)
        with reporter.progress("messages") as progress:
            progress.show(7, 10, files=2)
        reporter.say("done")
        text = read_until(screen, "done\r\n")
    assert "7 of 10 messages, files 2" in text
    assert "\x1b[2K" in text
    assert text.endswith("roquet spark test: done\r\n")


def test_what_is_waited_for_shows_while_standard_error_is_another_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with terminal(monkeypatch) as screen:
        reporter = Reporter("roquet spark test", as_json=False)
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        with reporter.waiting("starting Spark"):
            pass
        assert read_until(screen, "starting Spark ...")


@pytest.mark.parametrize(
    ("error", "output"),
    [
        (BadLake("the lake\nis none"), "the lake is none"),
        (FileNotFoundError(2, "No such file or directory", "lake"), "lake: No such file"),
        (OSError("no room"), "no room"),
    ],
)
def test_what_was_raised_on_purpose_is_one_line_and_exit_code_1(
    reporter: Reporter, capsys: pytest.CaptureFixture[str], error: Exception, output: str
) -> None:
    with pytest.raises(SystemExit) as ended, reporter.failures_reported():
        raise error
    assert ended.value.code == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"roquet spark test: {output}")
    assert err.count("\n") == 1


def test_notes_of_an_error_are_in_its_line(
    reporter: Reporter, capsys: pytest.CaptureFixture[str]
) -> None:
    error = BadLake("gone")
    error.add_note("what Spark printed is in spark.log")
    with pytest.raises(SystemExit), reporter.failures_reported():
        raise error
    assert capsys.readouterr().err.endswith("gone; what Spark printed is in spark.log\n")


def test_warnings_of_what_runs_are_reported_while_it_runs(
    reporter: Reporter, capsys: pytest.CaptureFixture[str]
) -> None:
    log = logging.getLogger("roquet.test")
    with reporter.failures_reported():
        log.warning("started %s", "again")
        log.info("nobody asked")
    log.warning("too late")
    assert capsys.readouterr().err == "roquet spark test: started again\n"


def test_a_rate_is_that_of_all_so_far() -> None:
    assert progress_text(12_000, 60_000, "messages", 5.0, {"lag": 7}) == (
        "12,000 of 60,000 messages, lag 7, 2,400 a second"
    )
    assert progress_text(0, None, "files", 5.0, {}) == "0 files"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (False, "no"),
        (1234567, "1,234,567"),
        (datetime(2026, 11, 16, 12, tzinfo=UTC), "2026-11-16T12:00:00.000+00:00"),
        ("a\x1b[2Jb", "a�[2Jb"),
    ],
)
def test_values_are_shown_as_people_read_them(value: object, text: str) -> None:
    assert shown(value) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(), "0 s"),
        (timedelta(milliseconds=300), "300 ms"),
        (timedelta(milliseconds=-300), "-300 ms"),
        (timedelta(seconds=59), "59 s"),
        (timedelta(seconds=65), "1 min 5 s"),
        (timedelta(hours=2, minutes=3), "2 h 3 min"),
        (timedelta(hours=50), "2 d 2 h"),
        (timedelta(seconds=-70), "-1 min 10 s"),
    ],
)
def test_a_span_is_shown_by_its_two_largest_units(span: timedelta, text: str) -> None:
    assert shown(span) == text


def test_a_span_is_seconds_in_json_and_a_map_an_object() -> None:
    report = Report({"behind_s": timedelta(minutes=1), "properties": {"a": "b"}})
    assert json.loads(report.to_json()) == {"behind_s": 60.0, "properties": {"a": "b"}}
    assert shown({"a": "b", "c": "d"}) == "a=b, c=d"


def test_a_table_alone_has_no_heading(
    reporter: Reporter, capsys: pytest.CaptureFixture[str]
) -> None:
    reporter.finish(Report({}, [ReportTable("queues", ("queue", "used_ratio"), [(0, 0.25)])]))
    out, _ = capsys.readouterr()
    assert [line.split() for line in out.splitlines()] == [["queue", "used"], ["0", "25%"]]


def test_what_does_not_fit_becomes_paragraphs(
    reporter: Reporter, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    rows = [("a" * 15, "b" * 15), ("c", "d")]
    reporter.finish(Report({}, [ReportTable("pairs", ("first", "second"), rows)]))
    out, _ = capsys.readouterr()
    assert [line.split() for line in out.splitlines()] == [
        ["first", "a" * 12],
        ["aaa"],
        ["second", "b" * 12],
        ["bbb"],
        [],
        ["first", "c"],
        ["second", "d"],
    ]


def test_a_bar_comes_when_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as screen:
        reporter = Reporter("roquet test", as_json=False)
        with reporter.late_progress("messages", 10) as progress:
            progress.advance()
            monkeypatch.setattr("roquet.reporting._PATIENCE_S", 0.0)
            progress.advance(4)
            assert "5 of 10 messages" in read_until(screen, "messages")
