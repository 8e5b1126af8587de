"""The log of a server, for people and for machines."""

import json
import logging
import sys
import time

import pytest

from roquet.cli.serving.log_lines import JsonLines, TextLines


def record(message: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("roquet.x", logging.WARNING, "x.py", 1, message, arguments, None)


def test_an_event_is_one_line_of_json_whatever_is_in_it() -> None:
    event = record("%s has %d", 'a "name"\nof two lines', 3)
    event.created = 1_700_000_000.1239
    line = JsonLines().format(event)
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.123000Z",
        "level": "WARNING",
        "logger": "roquet.x",
        "message": 'a "name"\nof two lines has 3',
    }


def test_an_error_comes_with_its_traceback() -> None:
    event = record("failed")
    try:
        raise ValueError("why")  # noqa: TRY301
    except ValueError:
        event.exc_info = sys.exc_info()
    found = json.loads(JsonLines().format(event))
    assert found["error"].startswith("Traceback")
    assert found["error"].endswith("ValueError: why")


def test_a_line_of_text_names_its_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        event = logging.makeLogRecord({"msg": "up", "created": 1.0, "msecs": 0.0})
        assert (
            TextLines("%(asctime)s %(message)s").format(event) == "1970-01-01 05:30:01,000+0530 up"
        )
    finally:
        monkeypatch.undo()
        time.tzset()
