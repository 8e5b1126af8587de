"""The store against a list: whatever is done to it, a queue is what was appended, in order."""

from collections import defaultdict
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import mkdtemp

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import read_record
from roquet.protocol.messages.record_batches import DraftBatch
from roquet.store.config import FlushMode
from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import FaultyDisk
from tests.support.stores import crash, messages, open_store

TOPICS = ("TopicA", "TopicB")
QUEUE_IDS = (0, 1)
HOUR_S = 3600

places = st.tuples(st.sampled_from(TOPICS), st.sampled_from(QUEUE_IDS))
# Some bodies fill a third of a log file, so that files end in all sorts of places.
bodies = st.binary(max_size=40) | st.integers(0, 1300).map(lambda size: b"x" * size)


class StoreModel(RuleBasedStateMachine):
    """`appended` is the truth, `safe` how much of it must survive a power cut."""

    store: MessageStore
    disk: FaultyDisk

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(mkdtemp(prefix="roquet-model-"))
        self.generation = 0
        self.clock = FakeClock()
        self.appended: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        self.safe: dict[tuple[str, int], int] = defaultdict(int)
        self.is_open = False

    @property
    def root(self) -> Path:
        return self.directory / str(self.generation)

    @initialize(flush_mode=st.sampled_from(FlushMode))
    def open_empty(self, flush_mode: FlushMode) -> None:
        self.flush_mode = flush_mode
        self.root.mkdir()
        self.reopen()

    @rule(place=places, body=bodies, key=st.sampled_from("abc"))
    @precondition(lambda self: self.is_open)
    def append(self, place: tuple[str, int], body: bytes, key: str) -> None:
        topic, queue_id = place
        self.clock.advance(2)
        message = draft(body, topic=topic, queue_id=queue_id, properties={"KEYS": key})
        assert self.store.append(message).queue_offset == len(self.appended[place])
        self.appended[place].append(body)

    @rule(place=places, several=st.lists(st.binary(max_size=40), min_size=1, max_size=12))
    @precondition(lambda self: self.is_open)
    def append_batch(self, place: tuple[str, int], several: list[bytes]) -> None:
        topic, queue_id = place
        self.clock.advance(2)
        batch = [draft(body, topic=topic, queue_id=queue_id) for body in several]
        assert self.store.append_batch(DraftBatch(batch)).queue_offset == len(self.appended[place])
        self.appended[place] += several

    @rule()
    @precondition(lambda self: self.is_open)
    def flush(self) -> None:
        self.store.flush()
        self.safe = defaultdict(int, {key: len(all_) for key, all_ in self.appended.items()})

    @rule()
    @precondition(lambda self: self.is_open)
    def file_keys(self) -> None:
        assert self.store.file_keys()

    @rule(topic=st.sampled_from(TOPICS))
    @precondition(lambda self: self.is_open)
    def delete_topic(self, topic: str) -> None:
        self.store.delete_topic(topic)
        for place in list(self.appended):
            if place[0] == topic:
                del self.appended[place]
                self.safe.pop(place, None)

    @rule()
    @precondition(lambda self: self.is_open)
    def close(self) -> None:
        self.store.close()
        self.is_open = False
        self.safe = defaultdict(int, {key: len(all_) for key, all_ in self.appended.items()})

    @rule()
    @precondition(lambda self: self.is_open)
    def kill(self) -> None:
        """The page cache survives, so nothing at all is lost."""
        crash(self.store)
        self.is_open = False

    @rule(seed=st.integers(0, 2**32))
    @precondition(lambda self: self.is_open)
    def cut_power(self, seed: int) -> None:
        """What was synced survives; of the rest, a beginning in the order of the log."""
        crash(self.store)
        before = self.disk
        self.generation += 1
        self.root.mkdir()
        before.cut_power(self.root, Random(seed))
        self.reopen()
        for place, all_ in list(self.appended.items()):
            found = [bytes(message.body) for message in self.found(place)]
            assert found == all_[: len(found)]
            assert len(found) >= self.safe[place]
            self.appended[place] = found

    @rule()
    @precondition(lambda self: not self.is_open)
    def reopen(self) -> None:
        self.disk = FaultyDisk(self.root)
        self.store = open_store(
            self.root, clock=self.clock, disk=self.disk, flush_mode=self.flush_mode
        )
        assert self.store.recovery is not None
        assert self.store.recovery.misfits == ()
        self.is_open = True

    @invariant()
    def queues_are_what_was_appended(self) -> None:
        if not self.is_open:
            return
        for place, all_ in self.appended.items():
            found = self.found(place)
            if self.flush_mode is FlushMode.ASYNC:
                assert len(found) == len(all_)
            assert [message.body for message in found] == all_[: len(found)]
            assert [message.queue_offset for message in found] == list(range(len(found)))

    @invariant()
    def keys_lead_to_their_messages(self) -> None:
        if not self.is_open or not self.store.file_keys():
            return
        for topic in TOPICS:
            for key in "abc":
                for record in self.store.query(topic, key, 64, 0, 2**60).records:
                    message = read_record(record)
                    assert (message.topic, message.keys) == (topic, (key,))

    def found(self, place: tuple[str, int]) -> list[StoredMessage]:
        return messages(self.store, *place)

    def teardown(self) -> None:
        if self.is_open:
            crash(self.store)
        rmtree(self.directory)


TestStoreModel = StoreModel.TestCase
# Every step looks at every message.
TestStoreModel.settings = settings(
    settings(), max_examples=settings().max_examples // 3, stateful_step_count=30
)
