"""In which rows a key is found."""

import pyarrow as pa
import pytest

from roquet.pipeline.lake.forgetting import Forgotten

ROWS = pa.table({"keys": ["7 8", "77", None], "customer": [{"id": 8}, {"id": 7}, None]})


@pytest.mark.parametrize(
    ("forgotten", "found"),
    [
        (Forgotten("7"), [True, False, False]),
        (Forgotten("8"), [True, False, False]),
        (Forgotten("7", "customer.id"), [False, True, False]),
    ],
)
def test_a_key_is_one_of_several_or_the_whole_value(
    forgotten: Forgotten, found: list[bool]
) -> None:
    assert forgotten.is_in(ROWS).to_pylist() == found


@pytest.mark.parametrize("columns", [["keys"], ["keys", "customer"]])
def test_where_the_column_is_missing_keys_are_not_searched_instead(columns: list[str]) -> None:
    rows = ROWS.select(columns)
    assert not Forgotten("7", "customer.name").can_be_in(rows.schema)
    assert Forgotten("7").can_be_in(rows.schema)
