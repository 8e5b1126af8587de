"""How far groups have come."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, strategies as st

from roquet.broker.errors import BadOffset
from roquet.broker.tables import offsets as offset_tables
from roquet.broker.tables.offsets import OffsetTable, OwnOffset, transaction_progress_of
from roquet.net.errors import TableFull
from roquet.protocol.bodies.offsets import (
    ConsumerOffsetTable,
    TransactionProgress,
)
from roquet.protocol.errors import BadBody
from roquet.protocol.lenient_json import strict_json
from roquet.protocol.names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from tests.support.golden_state import STORES, golden_state
from tests.support.raising import raises

names = st.text("abc%|_-", min_size=1, max_size=5)
queue_ids = st.integers(0, 3)
offsets = st.integers(0, 2**63 - 1)


def table(commits: dict[tuple[str, str, int], int]) -> OffsetTable:
    made = OffsetTable()
    for (group, topic, queue_id), offset in commits.items():
        made.commit(group, topic, queue_id, offset)
    return made


# --- commits ---


def test_an_offset_is_found_by_group_topic_and_queue() -> None:
    found = table({("g", "t", 0): 5, ("g", "t", 1): 6, ("g", "u", 0): 7, ("h", "t", 0): 8})
    assert found.find("g", "t", 0) == 5
    assert found.find("g", "t", 1) == 6
    assert found.find("g", "u", 0) == 7
    assert found.find("h", "t", 0) == 8
    for unknown in (("g", "t", 2), ("g", "v", 0), ("i", "t", 0)):
        assert found.find(*unknown) is None


def test_a_commit_may_go_back_and_says_so() -> None:
    found = OffsetTable()
    went_back = [found.commit("g", "t", 0, offset) for offset in (5, 9, 9, 3)]
    assert went_back == [False, False, False, True]
    assert found.find("g", "t", 0) == 3


@given(st.lists(offsets, min_size=1))
@pytest.mark.slow
def test_pulls_never_move_an_offset_back(seen: list[int]) -> None:
    found = OffsetTable()
    for offset in seen:
        found.advance("g", "t", 0, offset)
    assert found.find("g", "t", 0) == max(seen)


@pytest.mark.parametrize(("queue_id", "offset"), [(0, -1), (-1, 0)])
def test_what_is_no_place_in_a_queue_is_refused(queue_id: int, offset: int) -> None:
    found = OffsetTable()
    with pytest.raises(BadOffset):
        found.commit("g", "t", queue_id, offset)
    with pytest.raises(BadOffset):
        found.reset("g", "t", queue_id, offset)
    found.advance("g", "t", queue_id, offset)  # A pull is not refused for what it carries.
    assert found.topics_of("g") == []
    assert found.take_reset("g", "t", queue_id) is None


def test_every_change_is_counted() -> None:
    found = OffsetTable()
    counts = [found.change_count]
    found.commit("g", "t", 0, 5)
    counts.append(found.change_count)
    found.advance("g", "t", 0, 6)
    counts.append(found.change_count)
    found.reset("g", "t", 0, 0)
    counts.append(found.change_count)
    found.clone("g", "h", "t")
    counts.append(found.change_count)
    found.forget_topic("t")
    counts.append(found.change_count)
    found.forget_group("g")
    counts.append(found.change_count)
    assert counts == sorted(set(counts))


def test_only_changes_are_counted() -> None:
    found = OffsetTable()
    found.commit("g", "t", 0, 5)
    assert found.change_count == 1
    found.commit("g", "t", 0, 5)
    found.advance("g", "t", 0, 5)
    found.advance("g", "t", 0, 4)
    found.clone("missing", "h", "t")
    found.forget_group("missing")
    found.forget_topic("missing")
    assert found.change_count == 1


# --- resets ---


def test_a_reset_is_stronger_than_commits_until_a_pull_has_seen_it() -> None:
    found = table({("g", "t", 0): 50, ("g", "t", 1): 50})
    found.reset("g", "t", 0, 10)
    assert found.find("g", "t", 0) == 10
    assert not found.commit("g", "t", 0, 51)
    found.advance("g", "t", 0, 52)
    found.commit("g", "t", 1, 53)
    assert found.queues("g", "t") == {0: 10, 1: 53}

    assert found.take_reset("g", "t", 1) is None
    assert found.take_reset("g", "t", 0) == 10
    assert found.take_reset("g", "t", 0) is None
    found.commit("g", "t", 0, 11)
    assert found.find("g", "t", 0) == 11


def test_the_last_of_several_resets_counts() -> None:
    found = OffsetTable()
    found.reset("g", "t", 0, 10)
    found.reset("g", "t", 0, 20)
    assert found.take_reset("g", "t", 0) == 20
    assert found.find("g", "t", 0) == 20


def test_what_is_forgotten_is_not_reset() -> None:
    found = OffsetTable()
    found.reset("g", "t", 0, 1)
    found.reset("h", "u", 0, 2)
    found.reset("h", "v", 0, 3)
    found.forget_group("g")
    found.forget_topic("u")
    assert found.take_reset("g", "t", 0) is None
    assert found.take_reset("h", "u", 0) is None
    assert found.take_reset("h", "v", 0) == 3


# --- views ---


def test_topics_and_groups_are_listed() -> None:
    found = table({("g", "t", 0): 1, ("g", "u", 0): 2, ("h", "t", 0): 3})
    assert found.topics_of("g") == ["t", "u"]
    assert found.groups_of("t") == ["g", "h"]
    assert found.topics_of("missing") == []
    assert found.groups_of("missing") == []


def test_the_group_furthest_behind_counts_unless_it_fell_out_of_the_queue() -> None:
    found = table(
        {
            ("ahead", "t", 0): 9,
            ("behind", "t", 0): 5,
            ("out", "t", 0): 2,
            ("ignored", "t", 0): 4,
            ("ahead", "t", 1): 3,
            ("out", "t", 2): 0,
        }
    )
    lowest = found.lowest("t", {0: 3, 1: 3, 2: 1}.__getitem__, ignored=("ignored",))
    assert lowest == {0: 5, 1: 3}
    assert found.find("ignored", "t", 0) == 4


def test_a_clone_goes_its_own_way() -> None:
    found = table({("g", "t", 0): 1, ("g", "t", 1): 2, ("h", "t", 2): 7})
    found.clone("g", "h", "t")
    found.commit("g", "t", 0, 5)
    assert found.queues("h", "t") == {0: 1, 1: 2}


def test_there_is_a_bound_for_all_offsets() -> None:
    found = OffsetTable(count_max=3)
    for queue_id in range(3):
        found.check_room("g", "t", queue_id)
        found.commit("g", "t", queue_id, 1)
    with raises(TableFull, limit=3, setting="maxConsumerOffsets"):
        found.check_room("h", "t", 0)
    found.check_room("g", "t", 2)
    # A pull is answered all the same.
    found.advance("h", "t", 0, 5)
    found.advance("g", "t", 2, 5)
    assert (found.find("h", "t", 0), found.find("g", "t", 2)) == (None, 5)


@given(
    st.lists(
        st.tuples(st.sampled_from("cdfgx"), names, names, queue_ids, st.integers(0, 9)), max_size=30
    )
)
def test_offsets_are_counted_as_they_come_and_go(
    steps: list[tuple[str, str, str, int, int]],
) -> None:
    found = OffsetTable()
    for step, group, other, queue_id, offset in steps:
        match step:
            case "d":
                found.forget_topic(other)
            case "f":
                found.forget_group(group)
            case "g":
                found.clone(group, other, "t")
            case _:
                found.commit(group, "t" if step == "x" else other, queue_id, offset)
    held = found.snapshot().offset_table.values()
    assert found.count == sum(map(len, held))


def test_how_far_groups_have_pulled_is_given_up_when_it_is_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(offset_tables, "PULLED_COUNT_MAX", 2)
    found = OffsetTable()
    for queue_id in range(2):
        found.note_pulled("g", "t", queue_id, 5)
    found.trim()
    assert found.pulled("g", "t", 1) == 5
    found.note_pulled("g", "t", 2, 5)
    found.trim()
    assert found.pulled_to == {}


def test_a_forgotten_group_or_topic_is_gone() -> None:
    found = table({("g", "t", 0): 1, ("g", "u", 0): 2, ("h", "t", 0): 3})
    found.forget_topic("t")
    assert found.groups_of("t") == []
    assert found.find("g", "u", 0) == 2
    found.forget_group("g")
    assert found.topics_of("g") == []


# --- the file, and the master ---


@pytest.mark.parametrize("store", STORES)
def test_a_file_of_apache_is_read_and_written_without_loss(store: str) -> None:
    data = golden_state(store, "consumerOffset.json")
    found = OffsetTable()
    assert found.load(data) == []
    assert found.change_count == 0
    theirs = msgspec.json.decode(strict_json(data))["offsetTable"]
    ours = msgspec.json.decode(found.to_bytes())["offsetTable"]
    assert ours == theirs
    assert found.groups_of("RMQ_SYS_TRANS_HALF_TOPIC") == ["CID_RMQ_SYS_TRANS"]


@given(st.dictionaries(st.tuples(names, names, queue_ids), offsets))
@pytest.mark.slow
def test_what_is_written_is_read_back(commits: dict[tuple[str, str, int], int]) -> None:
    found = table(commits)
    again = OffsetTable()
    assert again.load(found.to_bytes()) == []
    assert {place: again.find(*place) for place in commits} == commits
    assert again.snapshot() == found.snapshot()


def test_what_cannot_be_an_offset_is_left_out_of_a_file() -> None:
    found = OffsetTable()
    data = (
        b'{"offsetTable":{"t@g":{0:4,1:-1,-2:3},"t@g@broadcast":{0:1},"alone":{0:2},'
        b'"../t@g":{0:3}},"pullOffsetTable":{"t@g":{0:9}}}'
    )
    assert found.load(data) == ["t@g@broadcast", "alone", "../t@g"]
    assert found.queues("g", "t") == {0: 4}
    assert found.groups_of("t") == ["g"]


def test_a_broken_file_changes_nothing() -> None:
    found = table({("g", "t", 0): 1})
    with pytest.raises(BadBody):
        found.load(b'{"offsetTable":{"t@g":{0:2}')
    assert found.queues("g", "t") == {0: 1}


def test_no_group_is_further_than_its_queue_after_a_cut() -> None:
    found = table({("g", "t", 0): 5, ("g", "t", 1): 5, ("h", "t", 0): 3, ("h", "gone", 0): 1})
    change_count = found.change_count
    found.cut_back(lambda topic, queue_id: 4 + queue_id if topic == "t" else 0)
    assert found.queues("g", "t") == {0: 4, 1: 5}
    assert found.queues("h", "t") == {0: 3}
    assert found.queues("h", "gone") == {0: 0}
    assert found.change_count == change_count + 2


def test_a_slave_takes_over_what_its_master_knows() -> None:
    found = table({("g", "t", 0): 5, ("g", "t", 1): 5, ("own", "t", 0): 1})
    found.merge(ConsumerOffsetTable(offset_table={"t@g": {0: 3}, "u@h": {7: 9}}))
    assert found.queues("g", "t") == {0: 3, 1: 5}
    assert found.queues("h", "u") == {7: 9}
    assert found.find("own", "t", 0) == 1


def test_what_is_pulled_is_never_behind_what_is_committed() -> None:
    made = OffsetTable()
    assert made.pulled("g", "t", 0) == 0
    made.note_pulled("g", "t", 0, 7)
    assert (made.pulled("g", "t", 0), made.find("g", "t", 0)) == (7, None)
    made.commit("g", "t", 0, 9)
    assert made.pulled("g", "t", 0) == 9
    made.note_pulled("g", "t", 0, 12)
    made.reset("g", "t", 0, 3)
    assert made.pulled("g", "t", 0) == 3


@pytest.mark.parametrize(
    "forget", [lambda each: each.forget_group("g"), lambda each: each.forget_topic("t")]
)
def test_what_is_forgotten_was_never_pulled(forget: Callable[[OffsetTable], None]) -> None:
    made = OffsetTable()
    made.note_pulled("g", "t", 0, 7)
    forget(made)
    assert made.pulled("g", "t", 0) == 0


# --- a slave ---


def of_master(offset: int) -> ConsumerOffsetTable:
    return ConsumerOffsetTable(offset_table={"t@g": {0: offset}})


def test_a_slave_follows_its_master_also_back() -> None:
    slave = OffsetTable(is_slave=True)
    assert slave.follow(of_master(5)) == []
    assert slave.follow(of_master(3)) == []
    assert slave.find("g", "t", 0) == 3


def test_what_was_committed_at_the_slave_does_not_go_back_and_is_reported() -> None:
    slave = OffsetTable(is_slave=True)
    slave.follow(of_master(5))
    slave.commit("g", "t", 0, 9)
    assert slave.follow(of_master(5)) == [OwnOffset("g", "t", 0, 9)]
    assert slave.find("g", "t", 0) == 9
    # Until that has worked.
    assert slave.follow(of_master(5)) == [OwnOffset("g", "t", 0, 9)]


def test_a_group_that_is_new_to_the_master_is_reported() -> None:
    slave = OffsetTable(is_slave=True)
    slave.commit("g", "t", 0, 9)
    assert slave.follow(ConsumerOffsetTable()) == [OwnOffset("g", "t", 0, 9)]
    # Apache keeps -1 for queues whose offset it does not know.
    assert slave.follow(of_master(-1)) == [OwnOffset("g", "t", 0, 9)]
    assert slave.find("g", "t", 0) == 9


def test_the_settings_of_the_master_stay_its_own() -> None:
    slave = OffsetTable(is_slave=True)
    slave.commit("g", "t", 0, 9)
    (own,) = slave.follow(of_master(5))
    slave.note_sent(own)
    assert slave.follow(of_master(2)) == []
    assert slave.find("g", "t", 0) == 2


def test_a_master_that_is_further_is_followed() -> None:
    slave = OffsetTable(is_slave=True)
    slave.commit("g", "t", 0, 9)
    assert slave.follow(of_master(11)) == []
    assert slave.follow(of_master(4)) == []
    assert slave.find("g", "t", 0) == 4


def test_a_pull_commits_nothing_at_a_slave() -> None:
    slave = OffsetTable(is_slave=True)
    slave.advance("g", "t", 0, 9)
    assert slave.find("g", "t", 0) is None


def test_a_deleted_topic_is_not_reported() -> None:
    slave = OffsetTable(is_slave=True)
    slave.commit("g", "t", 0, 9)
    slave.forget_topic("t")
    assert slave.follow(ConsumerOffsetTable()) == []


# --- the transaction check ---


def note_transactions(made: OffsetTable, offset: int) -> None:
    """With a log whose end is a hundred times as much."""
    progress = TransactionProgress(half_offset=offset, op_offset=offset + 1)
    made.transactions.propose(progress, offset * 100)
    made.transactions.confirm(offset * 100)


def checked(made: OffsetTable) -> tuple[int | None, int | None]:
    return (
        made.find(TRANSACTION_GROUP, HALF_TOPIC, 0),
        made.find(TRANSACTION_GROUP, OP_HALF_TOPIC, 0),
    )


def test_what_counts_of_the_check_is_in_the_table() -> None:
    made = OffsetTable()
    for offset in (5, 7):
        change_count = made.change_count
        note_transactions(made, offset)
        assert checked(made) == (offset, offset + 1)
        assert made.change_count > change_count
    made.transactions.truncate(699)
    assert checked(made) == (5, 6)
    made.transactions.truncate(0)
    assert checked(made) == (0, 0)


def test_for_which_log_the_check_has_come_so_far_is_read_back() -> None:
    made, again = OffsetTable(), OffsetTable()
    for offset in (5, 7):
        note_transactions(made, offset)
    assert again.load(made.to_bytes()) == []
    assert list(again.transactions.known) == list(made.transactions.known)
    assert checked(again) == (7, 8)


@pytest.mark.parametrize("store", STORES)
def test_what_apache_says_of_the_check_is_true_for_the_log_it_lies_beside(store: str) -> None:
    made = OffsetTable()
    made.load(golden_state(store, "consumerOffset.json"))
    half_offset, op_offset = checked(made)
    made.transactions.truncate(1000)
    assert list(made.transactions.known) == [
        TransactionProgress(half_offset=half_offset or 0, op_offset=op_offset or 0, true_at=1000)
    ]


def test_what_another_broker_has_changed_in_the_file_counts() -> None:
    made, again = OffsetTable(), OffsetTable()
    note_transactions(made, 5)
    again.load(made.to_bytes().replace(b'{"0":5}', b'{"0":9}'))
    assert list(again.transactions.known) == [TransactionProgress(half_offset=9, op_offset=6)]


def test_where_there_are_no_transactions_the_file_says_nothing_of_them() -> None:
    made = table({("g", "t", 0): 5})
    assert made.to_bytes() == b'{"offsetTable":{"t@g":{"0":5}}}'
    made.load(made.to_bytes())
    assert list(made.transactions.known) == []


def test_a_slave_does_not_take_the_check_from_the_table_of_its_master() -> None:
    master, slave = table({("g", "t", 0): 5}), OffsetTable(is_slave=True)
    note_transactions(master, 7)
    assert slave.follow(master.snapshot()) == []
    assert (slave.find("g", "t", 0), checked(slave)) == (5, (None, None))


@pytest.mark.parametrize(("log_end", "expected"), [(700, 7), (699, 5), (0, 0)])
def test_a_table_can_be_sent_as_it_is_true_for_a_shorter_log(log_end: int, expected: int) -> None:
    made = table({("g", "t", 0): 5})
    for offset in (5, 7):
        note_transactions(made, offset)
    reported = made.snapshot(log_end)
    assert transaction_progress_of(reported).half_offset == expected
    assert reported.offset_table["t@g"] == {0: 5}


@pytest.mark.parametrize(
    "forget",
    [
        lambda each: each.forget_group(TRANSACTION_GROUP),
        lambda each: each.forget_topic(HALF_TOPIC),
        lambda each: each.forget_topic(OP_HALF_TOPIC),
    ],
)
def test_the_check_of_topics_that_are_gone_starts_again(
    forget: Callable[[OffsetTable], None],
) -> None:
    made, again = OffsetTable(), OffsetTable()
    note_transactions(made, 5)
    forget(made)
    again.load(made.to_bytes())
    again.transactions.truncate(1000)
    assert again.transactions.value == TransactionProgress()
