"""Random schedules of faults, each of them repeatable by its seed, and what clients saw of them."""

import asyncio
import hashlib
import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Final, NamedTuple

from roquet import QueueRef, RoquetError
from tests.faults.findings import Findings
from tests.faults.simulation.virtual_loop import NothingLeft, VirtualLoop
from tests.faults.simulation.world import BROKER_NAME, FAULTS, Fault, World, simulated
from tests.faults.traffic import TOPIC, Mix, Traffic

QUEUE_COUNT: Final = 2
_FAULTS_MAX: Final = 4
_PAUSE_S_MAX: Final = 2.0
_PATIENCE_S: Final = 120.0
MIX: Final = Mix(senders_per_queue=1, pause_s=0.1, retried_each=10)


class Plan(NamedTuple):
    faults: Sequence[Fault]
    patience_s: float
    mix: Mix


class Outcome(NamedTuple):
    violations: list[str]
    faults: list[str]
    acknowledged: int
    virtual_s: float
    # Of everything that clients saw, in its order.
    trace: str


def run_schedule(
    directory: Path,
    seed: int,
    faults: Sequence[Fault] = FAULTS,
    patience_s: float = _PATIENCE_S,
    mix: Mix = MIX,
) -> Outcome:
    """The same seed gives the same outcome, to the byte.

    `faults` are those that may be done; whatever is due has to come within `patience_s`; `mix` is
    who is at work.
    """
    chance = random.Random(seed)
    plan = Plan(faults, patience_s, mix)
    loop = VirtualLoop(seed)
    directory.mkdir()
    try:
        with (
            simulated(loop, seed),
            _quiet(),
            asyncio.Runner(loop_factory=lambda: loop) as runner,
        ):
            return runner.run(_schedule(World(directory, loop, chance), chance, seed, plan))
    except (NothingLeft, RoquetError) as error:
        return Outcome([f"{type(error).__name__}: {error}"], [], 0, 0.0, "")
    finally:
        rmtree(directory, ignore_errors=True)


async def _schedule(world: World, chance: random.Random, seed: int, plan: Plan) -> Outcome:
    await world.open()
    world.broker.tables.topics.find_or_create(TOPIC, QUEUE_COUNT)
    await asyncio.sleep(_PAUSE_S_MAX)  # It is saved by then, and name servers know of it.
    queues = [QueueRef(TOPIC, BROKER_NAME, number) for number in range(QUEUE_COUNT)]
    done = []
    async with Traffic(world.name_server, queues, seed, plan.mix) as traffic:
        world.traffic = traffic
        watching = asyncio.create_task(world.watch_commits())
        await asyncio.sleep(chance.uniform(0, _PAUSE_S_MAX))
        for _ in range(chance.randint(1, _FAULTS_MAX) if plan.faults else 0):
            fault = chance.choice(plan.faults)
            done.append(fault.__name__)
            await fault(world)
            await asyncio.sleep(chance.uniform(0, _PAUSE_S_MAX))
        violations = await traffic.finish(plan.patience_s)
        watching.cancel()
    await world.close()
    history = traffic.history
    trace = hashlib.sha256(
        repr((history.acknowledged, history.promised, done)).encode()
    ).hexdigest()
    return Outcome(violations, done, history.owed_count, world.loop.now_s, trace)


@contextmanager
def _quiet() -> Iterator[None]:
    """The logs of servers and clients about thousands of faults are of no use."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def run_schedules(directory: Path, seed: int, count: int) -> Findings:
    findings = Findings()
    for number in range(seed, seed + count):
        outcome = run_schedule(directory / str(number), number)
        findings.counts["schedules"] += 1
        findings.counts["faults"] += len(outcome.faults)
        findings.counts["acknowledged"] += outcome.acknowledged
        findings.violations += [
            f"schedule {number} ({', '.join(outcome.faults)}): {each}"
            for each in outcome.violations
        ]
    return findings
