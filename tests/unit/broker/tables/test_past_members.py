from datetime import timedelta

from roquet.broker.tables.clients import Client, Consumers
from roquet.broker.tables.past_members import GROUP_COUNT_MAX, MEMBER_COUNT_MAX, PastMembers
from roquet.protocol.bodies.clients import ConsumerData
from tests.support.fake_clock import FakeClock

GROUP = "billing"


def client(client_id: str) -> Client:
    return Client(client_id, "10.0.0.7:50000", "PYTHON", 409, seen_ms=0, seen_s=0.0)


def ids(table: PastMembers, group: str = GROUP) -> list[str]:
    return [each.client_id for each in table.of(group)]


def test_every_way_out_of_a_group_is_noted() -> None:
    table = PastMembers(FakeClock())
    consumers = Consumers[str](on_left=table.note)
    for each in ("unregisters", "disconnects", "is silent"):
        consumers.register(each, client(each), ConsumerData(group_name=GROUP))
    consumers.unregister(GROUP, "unregisters")
    consumers.forget("disconnects")
    consumers.forget_silent(now_s=1e6)
    assert ids(table) == ["unregisters", "disconnects", "is silent"]


def test_a_member_that_leaves_again_is_one_member() -> None:
    clock = FakeClock()
    table = PastMembers(clock)
    table.note(GROUP, client("one"))
    table.note(GROUP, client("two"))
    clock.advance(5)
    table.note(GROUP, client("one"))
    assert ids(table) == ["two", "one"]
    assert table.of(GROUP)[-1].left == clock.now_ms()


def test_members_are_kept_for_a_day() -> None:
    clock = FakeClock()
    table = PastMembers(clock)
    table.note(GROUP, client("one"))
    clock.advance(timedelta(days=1).total_seconds())
    assert ids(table) == ["one"]
    clock.advance(1)
    assert ids(table) == []
    assert b"one" not in table.to_bytes()


def test_the_first_to_leave_make_room() -> None:
    table = PastMembers(FakeClock())
    for number in range(MEMBER_COUNT_MAX + 1):
        table.note("0", client(str(number)))
    assert ids(table, "0") == [str(number) for number in range(1, MEMBER_COUNT_MAX + 1)]
    for number in range(1, GROUP_COUNT_MAX + 1):
        table.note(str(number), client("one"))
    assert ids(table, "0") == []
    assert ids(table, "1") == ["one"]


def test_the_table_is_read_as_it_was_written() -> None:
    clock = FakeClock()
    table, read = PastMembers(clock), PastMembers(clock)
    table.note(GROUP, client("one"))
    table.note("other", client("two"))
    assert read.load(table.to_bytes()) == []
    assert read.of(GROUP) == table.of(GROUP)
    assert ids(read, "other") == ["two"]


def test_a_deleted_group_has_no_past() -> None:
    table = PastMembers(FakeClock())
    table.note(GROUP, client("one"))
    count = table.change_count
    table.forget(GROUP)
    table.forget("unknown")
    assert ids(table) == []
    assert table.change_count == count + 1
