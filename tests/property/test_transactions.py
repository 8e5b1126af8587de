"""Transactions under any order of sends, words, questions, rounds, saves, stops and kills.

The model is one line: a transaction that its producer commits is delivered once, every other one
never; and when nobody says anything for long enough, it is given up.
"""

import asyncio
import shutil
import tempfile
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings, strategies as st

from roquet.broker.transactions.check_back import check_transactions
from roquet.protocol.messages.record import read_record
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.fake_clock import FakeClock
from tests.support.transactional import (
    COMMIT,
    GROUP,
    ROLLBACK,
    UNKNOWN,
    Half,
    asked_about,
    begin,
    delivered,
    end,
    given_up,
)

CHECK_COUNT_MAX = 3
OUTCOMES = (COMMIT, ROLLBACK, UNKNOWN)


@dataclass
class World:
    """One broker after the other on one directory, and a producer that knows what it wants."""

    directory: Path
    clock: FakeClock = field(default_factory=FakeClock)
    # By key: what the producer will say whenever it says anything, and all that it knows copies by.
    wanted: dict[str, int] = field(default_factory=dict)
    known: dict[str, list[Half]] = field(default_factory=dict)
    start_count: int = 0
    bed: BrokerBed = field(init=False)
    producer: BedClient = field(init=False)
    stack: AsyncExitStack = field(init=False)

    async def start(self, directory: Path) -> None:
        self.stack = AsyncExitStack()
        self.bed = await self.stack.enter_async_context(
            broker_bed(directory, clock=self.clock, transaction_check_count_max=CHECK_COUNT_MAX)
        )
        self.directory = directory
        self.start_count += 1
        self.producer = self.bed.connect()
        await self.producer.beat("producer", sends=[GROUP])

    async def begin(self, outcome: int) -> None:
        key = f"{len(self.wanted)}"
        self.wanted[key] = outcome
        self.known[key] = [await begin(self.bed, self.producer, key)]

    async def say(self, number: int, copy: int) -> None:
        """The producer says what it wants, about any copy that it ever seen."""
        if self.wanted:
            key = str(number % len(self.wanted))
            copies = self.known[key]
            await end(self.producer, copies[copy % len(copies)], self.wanted[key])

    async def check(self, seconds: int) -> None:
        self.clock.advance(seconds)
        await check_transactions(self.bed.broker)
        for question in await self.producer.all_asked():
            self.known[read_record(question.body).body.decode()].append(asked_about(question))

    async def save(self) -> None:
        """What services do every few seconds."""
        self.bed.broker.waiting.pending_halves.commit_progress(self.bed.broker.store.synced_end)
        await self.bed.broker.tables.savers.offsets.until_saved()

    async def stop(self) -> None:
        await self.stack.aclose()
        await self.start(self.directory)

    async def kill(self) -> None:
        killed = Path(
            shutil.copytree(self.directory, self.directory.parent / str(self.start_count))
        )
        await self.stack.aclose()
        await self.start(killed)

    async def finish(self) -> None:
        """The producer answers every question, until there are none."""
        for _ in range(CHECK_COUNT_MAX + 2):
            await self.check(60)
            for key, outcome in self.wanted.items():
                for copy in self.known[key]:
                    await end(self.producer, copy, outcome)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), st.sampled_from(OUTCOMES)),
        st.tuples(st.just("say"), st.integers(0, 20), st.integers(0, 5)),
        st.tuples(st.just("check"), st.sampled_from([0, 3, 7, 60])),
        st.tuples(st.sampled_from(["save", "stop", "kill"])),
    ),
    max_size=40,
)


@settings(max_examples=settings().max_examples // 5)  # Each starts several brokers.
@given(steps=steps)
def test_every_transaction_ends_as_its_producer_wants(steps: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(live(Path(name), steps))


async def live(directory: Path, steps: list[tuple[object, ...]]) -> None:
    world = World(directory)
    await world.start(directory / "0")
    try:
        for step, *arguments in steps:
            await getattr(world, str(step))(*arguments)
        await world.finish()
        ended = {
            outcome: [key.encode() for key, wanted in world.wanted.items() if wanted == outcome]
            for outcome in OUTCOMES
        }
        assert Counter(delivered(world.bed)) == Counter(ended[COMMIT])
        # Others may have been given up before their producer answered, but none twice.
        forgotten = Counter(given_up(world.bed))
        assert set(forgotten) >= set(ended[UNKNOWN])
        assert set(forgotten.values()) <= {1}
    finally:
        await world.stack.aclose()
