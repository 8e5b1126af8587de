"""Which half messages are open: after a start, while transactions end, and on disk."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from roquet.broker.tables.offsets import OffsetTable
from roquet.broker.transactions.pending_halves import OffsetSet, PendingHalves, half_offsets_of
from roquet.protocol.bodies.offsets import TransactionProgress
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import read_record
from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.golden_records import golden_records
from tests.support.stores import opened

GROUP = "CID_RMQ_SYS_TRANS"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    with opened(tmp_path) as store:
        yield store


def put_halves(store: MessageStore, count: int) -> None:
    for number in range(count):
        store.append(draft(b"%d" % number, topic=HALF_TOPIC))


def put_op(store: MessageStore, body: bytes, tag: str = "d") -> int:
    return store.append(draft(body, topic=OP_TOPIC, properties={"TAGS": tag})).queue_offset


def loaded(
    store: MessageStore, half_offset: int | None = None, op_offset: int | None = None
) -> PendingHalves:
    """As after a start, with this much in the table of offsets."""
    offsets = OffsetTable()
    progress = TransactionProgress(half_offset=half_offset or 0, op_offset=op_offset or 0)
    offsets.transactions.propose(progress, 0)
    offsets.transactions.confirm(0)
    pending = PendingHalves(store, offsets)
    pending.load()
    return pending


def open_offsets(pending: PendingHalves) -> list[int]:
    return [
        offset for offset in range(pending.progress, pending.end) if offset not in pending.ended
    ]


def saved(pending: PendingHalves) -> tuple[int | None, int | None]:
    offsets = pending._offsets
    return offsets.find(GROUP, HALF_TOPIC, 0), offsets.find(GROUP, OP_TOPIC, 0)


# --- what op messages say ---


def op(body: bytes, tag: str = "d") -> StoredMessage:
    record = draft(body, topic=OP_TOPIC, properties={"TAGS": tag})
    return StoredMessage(
        0, 0, 0, 0, 0, 0, 0, 0, 0, b"", 0, b"", 0, 0, body, OP_TOPIC, bytes(record.properties)
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"3", [3]),
        (b"1,0,3,", [1, 0, 3]),
        (b"7,", [7]),
        (b"", []),
        (b",,", []),
        (b"x,2,-1, 5", [2]),
        (b"9" * 18, [10**18 - 1]),
        (b"9" * 19, []),
        ("\u0663".encode(), []),
    ],
)
def test_both_forms_of_an_op_message_are_read(body: bytes, expected: list[int]) -> None:
    assert half_offsets_of(op(body)) == expected


def test_an_op_message_with_another_tag_says_nothing() -> None:
    assert half_offsets_of(op(b"3", tag="x")) == []


@pytest.mark.parametrize(
    ("store", "expected"),
    [("v49_clean", [0, 1, 3, 7]), ("v55_clean", [0, 1, 3, 7])],
)
def test_op_messages_of_both_releases_are_understood(store: str, expected: list[int]) -> None:
    records = [read_record(each.data) for each in golden_records() if each.store == store]
    ops = [record for record in records if record.topic == OP_TOPIC]
    assert sorted(offset for each in ops for offset in half_offsets_of(each)) == expected


# --- after a start ---


def test_what_op_messages_say_is_known_after_a_start(store: MessageStore) -> None:
    put_halves(store, 6)
    put_op(store, b"1")
    put_op(store, b"3,0,")
    assert open_offsets(loaded(store)) == [2, 4, 5]


def test_a_start_continues_where_the_table_says(store: MessageStore) -> None:
    put_halves(store, 6)
    for half_offset in range(6):
        put_op(store, b"%d" % half_offset)
    pending = loaded(store, 3, 4)
    assert pending.progress == 3
    assert open_offsets(pending) == [3]


def test_more_op_messages_than_one_read_brings_are_known(store: MessageStore) -> None:
    put_halves(store, 100)
    for half_offset in range(0, 100, 2):
        put_op(store, b"%d" % half_offset)
    assert open_offsets(loaded(store)) == list(range(1, 100, 2))


@pytest.mark.parametrize(("known", "expected"), [(99, 4), (4, 4), (2, 2), (None, 0)])
def test_progress_behind_the_queue_is_brought_back_to_its_end(
    store: MessageStore, known: int | None, expected: int
) -> None:
    put_halves(store, 4)
    assert loaded(store, known, known).progress == expected


def test_an_op_message_for_an_offset_that_no_queue_has_costs_nothing(store: MessageStore) -> None:
    put_halves(store, 2)
    put_op(store, b"%d" % 10**17)
    pending = loaded(store)
    assert 10**17 not in pending.ended
    assert len(pending.ended._bits) <= 1


def test_what_is_over_is_known_also_before_the_progress(store: MessageStore) -> None:
    # Apache leaves such a one when its half message was kept: the copy names the first.
    put_halves(store, 6)
    put_op(store, b"1")
    pending = loaded(store, 4, 0)
    assert 1 in pending.ended


def test_half_messages_of_before_the_start_are_doubtful(store: MessageStore) -> None:
    put_halves(store, 3)
    pending = loaded(store)
    put_halves(store, 1)
    assert pending.doubtful_end == 3


# --- while transactions end ---


def test_what_is_over_is_not_read_again(store: MessageStore) -> None:
    put_halves(store, 40)
    pending = loaded(store)
    for offset in range(35):
        pending.ended.add(offset)
    batch = pending.next_halves()
    assert [half.body for half in batch.messages] == [b"35", b"36", b"37", b"38", b"39"]
    assert pending.progress == 35


def test_progress_never_leaves_the_queue(store: MessageStore) -> None:
    put_halves(store, 3)
    pending = loaded(store)
    pending.advance_to(99)
    assert pending.progress == 3
    pending.advance_to(1)
    assert pending.progress == 3


def test_op_messages_are_passed_by_up_to_the_first_that_is_needed(store: MessageStore) -> None:
    put_halves(store, 6)
    for body in (b"0", b"2", b"x", b"1,4,", b"3"):
        put_op(store, body)
    pending = loaded(store)
    pending.advance_to(3)
    while pending.pass_ops():
        pass
    pending.commit_progress(store.synced_end)
    store.flush()
    pending.commit_progress(store.synced_end)
    assert saved(pending) == (3, 3)


def test_all_op_messages_are_passed_by_when_all_half_messages_are(store: MessageStore) -> None:
    put_halves(store, 50)
    for offset in range(50):
        put_op(store, b"%d" % offset)
    pending = loaded(store)
    pending.advance_to(50)
    while pending.pass_ops():
        pass
    store.flush()
    pending.commit_progress(store.synced_end)
    assert saved(pending) == (50, 50)
    assert len(pending.ended._bits) <= 1


def test_what_was_passed_by_is_forgotten_also_when_an_op_message_is_still_needed(
    store: MessageStore,
) -> None:
    put_halves(store, 200)
    pending = loaded(store)
    for offset in range(200):
        put_op(store, b"%d" % (199 - offset))
        pending.ended.add(offset)
    pending.advance_to(190)
    assert not pending.pass_ops()
    assert len(pending.ended._bits) == 2


def test_a_queue_that_starts_again_is_followed(store: MessageStore) -> None:
    put_halves(store, 5)
    put_op(store, b"1")
    pending = loaded(store, 5, 1)
    pending.unrecorded.append(3)
    store.delete_topic(HALF_TOPIC)
    store.delete_topic(OP_TOPIC)
    appended = store.append(draft(b"new", topic=HALF_TOPIC))
    pending.half_appended(appended.queue_offset)
    pending.op_appended(put_op(store, b"0"))
    assert open_offsets(pending) == [0]
    assert pending.unrecorded == []
    store.flush()
    pending.commit_progress(store.synced_end)
    assert saved(pending) == (0, 0)


# --- on disk ---


def test_the_table_does_not_know_more_than_the_disk(store: MessageStore) -> None:
    put_halves(store, 4)
    pending = loaded(store)
    pending.advance_to(2)
    pending.commit_progress(store.synced_end)
    assert saved(pending) == (None, None)
    store.flush()
    pending.commit_progress(store.synced_end)
    assert saved(pending) == (2, None)


def test_progress_is_saved_also_when_the_log_never_rests(store: MessageStore) -> None:
    put_halves(store, 4)
    store.flush()
    pending = loaded(store)
    pending.advance_to(1)
    put_halves(store, 1)
    pending.commit_progress(store.synced_end)  # The copies of these half messages are not safe.
    assert saved(pending) == (None, None)
    store.flush()
    put_halves(store, 1)
    pending.advance_to(3)
    pending.commit_progress(store.synced_end)  # Those of the first are by now.
    assert saved(pending) == (1, None)
    store.flush()
    put_halves(store, 1)
    pending.commit_progress(store.synced_end)
    assert saved(pending) == (3, None)


def test_the_table_says_for_which_log_it_is_true(store: MessageStore) -> None:
    put_halves(store, 4)
    pending = loaded(store)
    pending.advance_to(2)
    end = store.log_end
    pending.commit_progress(end - 1)
    assert saved(pending) == (None, None)
    put_halves(store, 1)
    pending.commit_progress(end)
    progress = pending._offsets.transactions.value
    assert progress == TransactionProgress(half_offset=2, true_at=end)
    assert saved(pending) == (2, None)


def test_without_transactions_the_table_stays_as_it_is(store: MessageStore) -> None:
    pending = loaded(store)
    pending.commit_progress(store.synced_end)
    assert saved(pending) == (None, None)
    assert pending._offsets.change_count == 0


offsets = st.integers(0, 100)


@given(start=st.integers(0, 50), added=st.lists(offsets))
def test_it_holds_what_was_added_from_its_start_on(start: int, added: list[int]) -> None:
    found = OffsetSet(start)
    for offset in added:
        found.add(offset)
    expected = {offset for offset in added if offset >= start}
    assert {offset for offset in range(start, 200) if offset in found} == expected


@given(added=st.sets(st.integers(0, 60)), offset=st.integers(0, 70))
def test_the_next_absent_offset_is_the_first_that_is_not_in_it(
    added: set[int], offset: int
) -> None:
    found = OffsetSet(0)
    for each in added:
        found.add(each)
    expected = next(each for each in range(offset, 100) if each not in added)
    assert found.next_absent(offset) == expected


def test_long_runs_are_passed_over() -> None:
    found = OffsetSet(5)
    for offset in range(5, 10_003):
        found.add(offset)
    assert found.next_absent(5) == found.next_absent(777) == 10_003


@given(added=st.sets(offsets), start=offsets)
@pytest.mark.slow
def test_what_comes_before_a_new_start_is_forgotten(added: set[int], start: int) -> None:
    found = OffsetSet(0)
    for offset in added:
        found.add(offset)
    found.forget_before(start)
    assert all((offset in found) == (offset in added) for offset in range(start, 200))
    assert not any(offset in found for offset in range(start - 8))


def test_a_start_never_moves_back() -> None:
    found = OffsetSet(80)
    found.add(81)
    found.forget_before(3)
    assert 81 in found
    found.add(3)
    assert 3 not in found


def test_none_is_in_no_set() -> None:
    assert None not in OffsetSet(0)


@pytest.mark.slow
def test_a_million_cost_little() -> None:
    tracemalloc.start()
    try:
        found = OffsetSet(0)
        for offset in range(0, 1_000_000, 7):
            found.add(offset)
        assert tracemalloc.get_traced_memory()[0] < 300_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("start", [0, 5, 8, 1000])
@pytest.mark.parametrize("first", [0, 1, 7, 8, 9, 1003, 5000])
def test_they_are_counted_from_any_offset_on(start: int, first: int) -> None:
    offsets = OffsetSet(start)
    added = [each for each in (0, 1, 7, 8, 9, 1000, 1003, 1017) if each >= start]
    for offset in added:
        offsets.add(offset)
    assert offsets.count_from(first) == sum(each >= first for each in added)
