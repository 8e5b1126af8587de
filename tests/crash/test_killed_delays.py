"""A broker that delivers delayed messages is killed again and again.

What it had not noted as delivered comes again, and nothing else: no more for each kill than was
delivered since the last save, which comes every second.
"""

import json
import os
from collections import Counter
from pathlib import Path

from msgspec.structs import replace

from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.messages.record import split_records
from tests.support.blocking_peer import BlockingPeer
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurBroker
from tests.support.plain_requests import plain_pull_header, plain_send_header, receipt_of
from tests.support.topics import create_topic

TOPIC = "delayed"
KILL_COUNT = 50 if os.environ.get("ROQUET_LONG") else 3
BATCH_COUNT = 200
CONFIGURATION = {"messageDelayLevel": "1s", "flushDiskType": "SYNC_FLUSH"}


def send_delayed(broker: OurBroker, bodies: list[bytes]) -> None:
    header = replace(plain_send_header(TOPIC), properties="DELAY\x011\x02WAIT\x01true\x02")
    with BlockingPeer(broker.address) as peer:
        for body in bodies:
            receipt_of(peer.call(RequestCode.SEND_MESSAGE_V2, header, body))


def delivered(broker: OurBroker) -> Counter[bytes]:
    """How often each message has come."""
    found: Counter[bytes] = Counter()
    offset = 0
    with BlockingPeer(broker.address) as peer:
        while True:
            reply = peer.call(RequestCode.PULL_MESSAGE, plain_pull_header(TOPIC, 0, offset))
            if reply.code != ResponseCode.SUCCESS:
                return found
            messages = split_records(reply.body)
            found.update(bytes(message.body) for message in messages)
            offset = messages[-1].queue_offset + 1


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
    wait_until(lambda: bodies[-1] in delivered(broker))


def test_a_kill_repeats_no_more_than_was_delivered_since_the_last_save(quick_path: Path) -> None:
    sent: list[bytes] = []
    with OurBroker(quick_path, configuration=CONFIGURATION) as broker:
        create_topic(broker.address, TOPIC)
        for kill in range(KILL_COUNT):
            saved, unsaved, behind = (batch_of(kill, name) for name in ("a", "b", "c"))
            deliver_delayed(broker, saved)
            await_note(broker, len(sent) + len(saved))
            before = delivered(broker)
            deliver_delayed(broker, unsaved)
            broker.kill()
            broker.start()
            deliver_delayed(broker, behind)
            sent += saved + unsaved + behind
            after = delivered(broker)
            assert set(after) == set(sent)
            assert {body: after[body] for body in before} == before
            assert all(after[body] <= 2 for body in unsaved)
