"""The story of a disk that fills, with the steps of docs/runbooks.md."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from roquet import Message, Producer, SendRefused
from roquet.client.received import ReceivedMessage
from tests.oncall.conftest import TOPIC, OnCall
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.small_disk import enlarge, small_disk, why_no_small_disk

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(why_no_small_disk() is not None, reason=str(why_no_small_disk())),
]

DISK_SIZE: Final = 64 << 20
NO_SPACE: Final = 14  # SERVICE_NOT_AVAILABLE


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", DISK_SIZE) as disk:
        yield disk


def use(disk: Path, ratio: float) -> None:
    """Another program takes space, until so much of the disk is in use."""
    space = os.statvfs(disk)
    used = (space.f_blocks - space.f_bavail) * space.f_frsize
    with (disk / f"ballast-{ratio}").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, round(DISK_SIZE * ratio) - used)


def test_a_disk_that_fills_is_enlarged_without_a_restart(
    tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    received: list[str] = []

    def listener(message: ReceivedMessage) -> None:
        received.extend(message.keys)

    small = {"mappedFileSizeCommitLog": str(5 << 20), "maxMessageSize": str(1 << 20)}
    names = OurNameServer(tmp_path / "names")
    broker = OurBroker(disk / "a", names.address, broker_name="broker-a", configuration=small)
    with names, broker:
        on_call = OnCall(names, broker, broker)
        wait_until(on_call.is_well)
        on_call.says("topic", "create", TOPIC, "--queues", "1")
        on_call.send("k1")
        use(disk, 0.8)
        warned = on_call.says("doctor")
        assert "its disk is 8" in warned
        assert "from 90% on it rejects messages" in warned
        use(disk, 0.95)
        with Producer(names.address, "shop") as producer:
            wait_until(lambda: is_refused(producer))
        assert "it rejects messages" in on_call.says("doctor", exit_code=1)
        assert on_call.shows("cluster")["brokers"][0]["disk_used_ratio"] > 0.9
        # Consumers are served all the time.
        with on_call.consumer(listener):
            wait_until(lambda: "k1" in received)
            # What the runbook says: who takes the space, fewer hours, a larger disk.
            assert TOPIC in on_call.says("topic", "list", "--counts", "--sort", "messages")
            on_call.says("broker", "config", "set", "broker-a", "fileReservedTime=24")
            enlarge(disk, 2 * DISK_SIZE)
            with Producer(names.address, "shop") as producer:
                wait_until(lambda: not is_refused(producer))
            wait_until(on_call.is_well)
            on_call.send("k2")
            wait_until(lambda: "k2" in received)
        broker.kill()  # Its log has the full disk in it, and so no good end.


def is_refused(producer: Producer) -> bool:
    try:
        producer.send(Message(TOPIC, b"one coffee"), timeout_s=3)
    except SendRefused as refused:
        return refused.code == NO_SPACE
    return False
