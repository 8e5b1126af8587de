"""The book of unfinished messages against a sorted list, in any order of taking and finishing."""

from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from roquet.client.push.offset_book import OffsetBook

START = 100
# Of the book's first space, and around twice as much.
MANY = (63, 64, 65, 127, 129)


class Sized(NamedTuple):
    queue_offset: int
    size: int


class BookMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.book = OffsetBook(START)
        self.sizes: dict[int, int] = {}
        self.next_offset = START

    @rule(messages=st.lists(st.tuples(st.integers(-START, 5), st.integers(0, 1000)), max_size=4))
    def add(self, messages: list[tuple[int, int]]) -> None:
        # Behind what was read last, or again.
        taken, new = [], []
        for gap, size in messages:
            message = Sized(self.next_offset + gap, size)
            taken.append(message)
            if gap >= 0:
                new.append(message)
                self.sizes[message.queue_offset] = size
                self.next_offset = message.queue_offset + 1
        assert self.book.add_all(taken) == new

    @rule(count=st.sampled_from(MANY), gap=st.integers(1, 3))
    def add_many(self, count: int, gap: int) -> None:
        self.add([(gap - 1, 1)] * count)

    @rule(distance=st.integers(-5, 20))
    def skip(self, distance: int) -> None:
        self.book.skip_to(self.next_offset + distance)
        self.next_offset += max(0, distance)

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        # Also some that were never added.
        offset = data.draw(st.sampled_from([0, *sorted(self.sizes)]) | st.integers(0, 2 * START))
        self.book.finish(offset)
        self.sizes.pop(offset, None)

    @rule(data=st.data())
    def finish_many(self, data: st.DataObject) -> None:
        offsets = data.draw(st.permutations(sorted(self.sizes)))[:7]
        self.book.finish_all(offsets)
        for offset in offsets:
            del self.sizes[offset]

    @rule(kept_count=st.integers(0, 3))
    def finish_most(self, kept_count: int) -> None:
        offsets = sorted(self.sizes)[: len(self.sizes) - kept_count]
        self.book.finish_all(offsets)
        for offset in offsets:
            del self.sizes[offset]

    @invariant()
    def agrees_with_the_model(self) -> None:
        unfinished = sorted(self.sizes)
        assert self.book.count == len(unfinished)
        assert self.book.size == sum(self.sizes.values())
        assert self.book.commit_offset == (unfinished[0] if unfinished else self.next_offset)
        assert self.book.span == (unfinished[-1] - unfinished[0] if unfinished else 0)
        assert self.book.next_offset == self.next_offset


TestOffsetBook = BookMachine.TestCase
