"""Queues of deleted topics, at the place in the log where they were deleted."""

from pathlib import Path

from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.stores import bodies, crash, open_store, opened


def put(store: MessageStore, body: bytes, topic: str = "TopicA", queue_id: int = 0) -> int:
    """Where its record ends."""
    appended = store.append(draft(body, topic=topic, queue_id=queue_id))
    return appended.physical_offset + appended.size


def test_a_topic_is_deleted_where_the_log_says_so(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store, b"1")
        end = put(store, b"2", queue_id=3)
        put(store, b"other", topic="TopicB")
        store.delete_topic("TopicA", before=end)
        assert store.queue_count("TopicA") == 0
        assert bodies(store, "TopicB") == [b"other"]
    with opened(tmp_path) as again:
        assert again.queue_count("TopicA") == 0


def test_what_came_after_the_deletion_stays(tmp_path: Path) -> None:
    """A slave may hear of the deletion when it has the messages of the next topic of that name."""
    store = open_store(tmp_path)
    end = put(store, b"old")
    store.delete_topic("TopicA")
    put(store, b"new")
    store.delete_topic("TopicA", before=end)
    assert bodies(store) == [b"new"]
    store.delete_topic("TopicA", before=end)
    assert bodies(store) == [b"new"]
    crash(store)
    with opened(tmp_path) as again:
        assert bodies(again) == [b"new"]


def test_what_was_deleted_after_a_cut_returns(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store, b"old, in an earlier file" * 100)
        put(store, b"kept", queue_id=1)
        for number in range(40):
            end = put(store, b"%d" % number * 100, topic="TopicB")
        store.delete_topic("TopicA")
        put(store, b"never in the log that goes on", topic="TopicB")
        assert store.queue_count("TopicA") == 0
    with opened(tmp_path, cut_end=end) as cut:
        assert bodies(cut) == [b"old, in an earlier file" * 100]
        assert bodies(cut, queue_id=1) == [b"kept"]
        assert len(bodies(cut, "TopicB")) == 40
    with opened(tmp_path) as again:
        assert bodies(again, queue_id=1) == [b"kept"]


def test_what_was_deleted_before_a_cut_stays_deleted(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        put(store, b"old")
        store.delete_topic("TopicA")
        end = put(store, b"kept", topic="TopicB")
        put(store, b"cut off", topic="TopicB")
    with opened(tmp_path, cut_end=end) as cut:
        assert cut.queue_count("TopicA") == 0
        assert bodies(cut, "TopicB") == [b"kept"]
