"""Message ids: known ones, real ones, and the months they count from."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from roquet.protocol.errors import BadMessage
from roquet.protocol.host import pack_host
from roquet.protocol.messages.message_id import (
    UniqueId,
    UniqueIdMaker,
    month_start_ms,
    next_month_start_ms,
    offset_id,
    parse_offset_id,
    parse_unique_id,
)
from roquet.protocol.messages.record import read_record
from tests.support.golden_records import golden_records

IP = bytes([10, 9, 7, 1])
BERLIN = ZoneInfo("Europe/Berlin")


def ms(year: int, month: int, day: int, hour: int = 0, zone: ZoneInfo | None = None) -> int:
    return int(datetime(year, month, day, hour, tzinfo=zone or UTC).timestamp()) * 1000


def test_an_offset_id_is_the_place_of_a_message() -> None:
    text = offset_id(pack_host("127.0.0.1", 10911), 1000)
    assert text == "7F00000100002A9F00000000000003E8"
    assert parse_offset_id(text) == (("127.0.0.1", 10911), 1000)


def test_an_offset_id_may_hold_an_ipv6_address() -> None:
    text = offset_id(pack_host("fd00::2", 10911), 1000)
    assert len(text) == 56
    assert parse_offset_id(text) == (("fd00::2", 10911), 1000)


@pytest.mark.parametrize("text", ["", "7F", "zz" * 16, "00" * 15, "00" * 17, "00" * 27, "\0" * 32])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(BadMessage):
        parse_offset_id(text)
    with pytest.raises(BadMessage):
        parse_unique_id(text)


def test_ids_are_made_of_process_time_and_counter() -> None:
    maker = UniqueIdMaker(IP, 0x17D26, 0x5FFD2B27, UTC)
    now_ms = ms(2026, 11, 1) + 0x4C7AE81A
    assert maker.make(now_ms) == "0A0907017D265FFD2B274C7AE81A0000"
    assert maker.make(now_ms + 1) == "0A0907017D265FFD2B274C7AE81B0001"


def test_a_real_id_is_read() -> None:
    # Made by the Java client on a machine with IPv6 only.
    text = "FD00000000000000000000000000000252C54E0E2F2A4CE5A25B0000"
    assert parse_unique_id(text) == UniqueId("fd00::2", 0x52C5, 0x4E0E2F2A, 0x4CE5A25B, 0)


def test_real_ids_were_made_just_before_their_messages() -> None:
    messages = [read_record(record.data) for record in golden_records()]
    made = [message for message in messages if "UNIQ_KEY" in message.properties]
    assert len(made) > 500
    # The machine that made them was in UTC.
    for message in made:
        unique_id = parse_unique_id(message.message_id)
        age_ms = message.born_timestamp - unique_id.made_at_ms(message.born_timestamp + 999, UTC)
        assert -1000 < age_ms < 10_000, message.message_id


def test_the_counter_starts_again_after_65536_ids() -> None:
    maker = UniqueIdMaker(IP, 1, 1, UTC)
    counters = [maker.make(0)[-4:] for _ in range(65537)]
    assert len(set(counters)) == 65536
    assert counters[-2:] == ["FFFF", "0000"]


def test_ids_of_a_new_month_count_from_its_beginning() -> None:
    maker = UniqueIdMaker(IP, 1, 1, UTC)
    month_end_ms = ms(2024, 3, 1)
    assert parse_unique_id(maker.make(month_end_ms - 1)).month_ms == 29 * 86_400_000 - 1
    assert parse_unique_id(maker.make(month_end_ms)).month_ms == 0
    assert parse_unique_id(maker.make(month_end_ms - 1)).month_ms == 29 * 86_400_000 - 1


@pytest.mark.parametrize("month", range(1, 13))
def test_the_last_moment_of_every_month_can_be_written(month: int) -> None:
    end_ms = next_month_start_ms(ms(2026, month, 1), UTC)
    made = parse_unique_id(UniqueIdMaker(IP, 1, 1, UTC).make(end_ms - 1))
    assert made.made_at_ms(end_ms, UTC) == end_ms - 1


def test_the_time_of_an_id_is_the_latest_that_is_not_in_the_future() -> None:
    made_at_ms = ms(2026, 2, 27)
    made = parse_unique_id(UniqueIdMaker(IP, 1, 1, UTC).make(made_at_ms))
    assert made.made_at_ms(made_at_ms, UTC) == made_at_ms
    assert made.made_at_ms(ms(2026, 3, 26), UTC) == made_at_ms
    assert made.made_at_ms(ms(2026, 3, 28), UTC) == ms(2026, 3, 27)


def test_a_month_starts_in_the_local_zone() -> None:
    # The clocks went forward on the 29th, so the zone's offset is another one by then.
    now_ms = ms(2026, 3, 31, 12, BERLIN)
    assert month_start_ms(now_ms, BERLIN) == ms(2026, 3, 1, 0, BERLIN) == ms(2026, 2, 28, 23)
    assert next_month_start_ms(now_ms, BERLIN) == ms(2026, 4, 1, 0, BERLIN) == ms(2026, 3, 31, 22)


def test_without_a_zone_the_one_of_the_process_is_taken() -> None:
    now_ms = ms(2026, 7, 15, 12)
    start = datetime.fromtimestamp(month_start_ms(now_ms) / 1000, UTC).astimezone()
    assert (start.day, start.hour, start.minute) == (1, 0, 0)
