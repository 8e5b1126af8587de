"""Commands of `roquet spark` inside of a test, on the session that all tests share."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import pytest
from pyspark.sql import SparkSession

from tests.support.command_line import Finished, roquet


@final
class JobCommands:
    """A session of one's own takes half a minute; everything else is as a person has it."""

    def __init__(self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        @contextmanager
        def shared(*_: object) -> Iterator[SparkSession]:
            yield spark

        monkeypatch.setattr("roquet.pipeline.session.spark_session", shared)

    def __call__(self, *arguments: str | Path | int) -> Finished:
        return roquet("spark", *arguments)

    def json(self, *arguments: str | Path | int, exit_code: int = 0) -> dict[str, Any]:
        """What a machine reads."""
        finished = self(*arguments, "--json")
        assert finished.exit_code == exit_code, finished.stderr
        found: dict[str, Any] = json.loads(finished.stdout)
        return found
