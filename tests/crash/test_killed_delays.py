"""A broker that delivers delayed messages is killed again and again.

What it had not noted as delivered comes again, and nothing else: no more for each kill than was
delivered since the last save. That comes every second, and in a young broker sooner.
"""

import json
import time
from pathlib import Path

import pytest

from tests.support.common_requests import delivered, send_each
from tests.support.eventually import wait_until
from tests.support.gates import IS_LONG, IS_QUICK, few
from tests.support.our_cluster import OurBroker
from tests.support.topics import create_topic

TOPIC = "delayed"
KILL_COUNT = 50 if IS_LONG else 3 if not IS_QUICK else 1
BATCH_COUNT = 200
CONFIGURATION = {"messageDelayLevel": "1s", "flushDiskType": "SYNC_FLUSH"}
LIFE_COUNT = 40 if IS_LONG else 8 if not IS_QUICK else 4
LIFE_S = 0.8
LEVEL = "DELAY\x011"
TIMER = "TIMER_DELAY_SEC\x011"


def send_delayed(broker: OurBroker, bodies: list[bytes], delay: str = LEVEL) -> None:
    send_each(broker.address, TOPIC, bodies, delay)


def noted_count(broker: OurBroker) -> int:
    """How many the broker would not deliver again."""
    path = broker.store_directory / "config" / "delayOffset.json"
    table = json.loads(path.read_text())["offsetTable"] if path.exists() else {}
    return int(table.get("1", 0))


def await_note(broker: OurBroker, count: int) -> None:
    wait_until(lambda: noted_count(broker) >= count)


def batch_of(kill: int, name: str) -> list[bytes]:
    return [f"{kill}-{name}-{number}".encode() for number in range(BATCH_COUNT)]


def deliver_delayed(broker: OurBroker, bodies: list[bytes]) -> None:
    """Returns when they are delivered, and all that were due before them: a level keeps order."""
    send_delayed(broker, bodies)
    wait_until(lambda: bodies[-1] in delivered(broker.address, TOPIC))


def test_a_kill_repeats_no_more_than_was_delivered_since_the_last_save(quick_path: Path) -> None:
    sent: list[bytes] = []
    with OurBroker(quick_path, configuration=CONFIGURATION) as broker:
        create_topic(broker.address, TOPIC)
        for kill in range(KILL_COUNT):
            saved, unsaved, behind = (batch_of(kill, name) for name in ("a", "b", "c"))
            deliver_delayed(broker, saved)
            await_note(broker, len(sent) + len(saved))
            before = delivered(broker.address, TOPIC)
            deliver_delayed(broker, unsaved)
            broker.kill()
            broker.start()
            deliver_delayed(broker, behind)
            sent += saved + unsaved + behind
            after = delivered(broker.address, TOPIC)
            assert set(after) == set(sent)
            assert {body: after[body] for body in before} == before
            assert all(after[body] <= 2 for body in unsaved)


@pytest.mark.slow
@pytest.mark.parametrize(
    "flush", few(["ASYNC_FLUSH", "SYNC_FLUSH"], 1, "short lives with sync flush")
)
def test_lives_below_a_second_do_not_deliver_the_same_again_and_again(
    quick_path: Path, flush: str
) -> None:
    """A message may be delivered in the last moments of a life, and so once more in the next. That
    one notes it soon after its start: nothing comes a third time.
    """
    sent: list[bytes] = []
    with OurBroker(quick_path, configuration=CONFIGURATION | {"flushDiskType": flush}) as broker:
        create_topic(broker.address, TOPIC)
        for life in range(LIFE_COUNT):
            ends_s = time.monotonic() + LIFE_S
            levels, timers = (batch_of(life, name)[:20] for name in ("level", "timer"))
            send_delayed(broker, levels)
            send_delayed(broker, timers, TIMER)
            sent += levels + timers
            wait_until(lambda: time.monotonic() > ends_s)  # noqa: B023  Awaited at once.
            broker.kill()
            broker.start()
        wait_until(lambda: set(delivered(broker.address, TOPIC)) == set(sent))
        often = {
            body: count for body, count in delivered(broker.address, TOPIC).items() if count > 2
        }
        assert often == {}
