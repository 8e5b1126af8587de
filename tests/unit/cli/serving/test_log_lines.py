"""The log of a server, for people and for machines."""

import json
import logging
import sys

from roquet.cli.serving.log_lines import JsonLines


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
