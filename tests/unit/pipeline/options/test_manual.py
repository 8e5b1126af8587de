"""docs/spark.md shows the options as they are declared."""

from pathlib import Path
from typing import Any

import pytest

from roquet.pipeline.options.manual import option_table
from roquet.pipeline.options.reading import ReadOptions
from roquet.pipeline.options.store import StoreOptions
from roquet.pipeline.options.writing import WriteOptions

MANUAL = Path(__file__).parents[4] / "docs" / "spark.md"


@pytest.mark.parametrize("kind", [ReadOptions, StoreOptions, WriteOptions])
def test_the_manual_has_the_table_as_it_is_declared(kind: type[Any]) -> None:
    assert option_table(kind) in MANUAL.read_text()
