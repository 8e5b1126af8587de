"""Values as pages show them, and tables that are filtered, sorted and cut."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from roquet.dashboard.pages.rendering import (
    ROWS_MAX,
    UNKNOWN,
    Listing,
    count,
    link,
    rate,
    ratio,
    size,
    span,
    time,
    visible,
)


def test_values_are_short_and_what_is_unknown_is_a_dash() -> None:
    assert [count(None), rate(None), ratio(None), size(None), span(None), time(None)] == [
        UNKNOWN
    ] * 6
    assert count(1234567) == "1,234,567"
    assert [rate(0), rate(0.25), rate(12.4)] == ["0", "0.2", "12"]
    assert [size(512), size(1536), size(5 << 40)] == ["512 B", "1.5 KB", "5.0 TB"]
    assert ratio(0.256) == "26%"
    assert span(timedelta(seconds=200)) == "3 min 20 s"
    assert "2026-01-02T03:04:05.000Z" in time(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


def test_characters_that_move_others_or_hide_are_shown_by_number() -> None:
    assert visible("a\u202eb\x00c\ud800\n") == "a⟨202E⟩b⟨0000⟩c⟨D800⟩\n"
    assert visible("größe 订单") == "größe 订单"


def test_names_are_quoted_in_addresses() -> None:
    assert link("groups", "%RETRY%a/b", x="1 2", y=None) == "/groups/%25RETRY%25a%2Fb?x=1+2"


class Row(NamedTuple):
    name: str
    lag: int | None


ROWS = [Row(f"g{index}", index if index % 2 else None) for index in range(250)]
COLUMNS = {"name": lambda row: row.name, "lag": lambda row: row.lag}


def test_the_worst_comes_first_and_what_is_unknown_last() -> None:
    first = Listing({"sort": "-lag"}, ROWS, COLUMNS, "name")
    assert first.rows[0].lag == 249
    assert len(first.rows) == ROWS_MAX
    last = Listing({"sort": "-lag", "page": "99"}, ROWS, COLUMNS, "name")
    assert (last.page, last.page_count) == (3, 3)
    assert last.rows[-1].lag is None


def test_a_second_click_turns_the_order_around() -> None:
    listing = Listing({"sort": "-lag"}, ROWS, COLUMNS, "name")
    assert listing.order_by("lag") == "lag"
    assert listing.order_by("name", is_number=False) == "name"


@pytest.mark.parametrize(
    "query", [{"sort": "nonsense"}, {"page": "-1"}, {"page": "1e9"}, {"page": "٣"}, {}]
)
def test_addresses_with_nonsense_are_read_as_if_it_were_not_there(query: dict[str, str]) -> None:
    listing = Listing(query, ROWS, COLUMNS, "name")
    assert (listing.sort, listing.page) == ("name", 1)


def test_a_filter_finds_names() -> None:
    assert Listing({"filter": "G24"}, ROWS, COLUMNS, "name").total == 11
