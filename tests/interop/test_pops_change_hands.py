"""Messages that are in flight when a store goes from our broker to one of Apache, and back."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.protocol.codes import RequestCode, ResponseCode
from tests.support.apache import ApacheBroker
from tests.support.blocking_peer import BlockingPeer
from tests.support.common_requests import common_send_header, receipt_of
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.popped import TOPIC, Popped, ack_header, pop_header
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

# Long enough that the other broker has started before it is over, even here.
INVISIBLE_MS = 3_000
# Apache's redeliveries take up to ten seconds more; what has not come by then does not come.
APACHE_LATE_S = 15.0


@pytest.fixture
def name_server(tmp_path: Path) -> Iterator[str]:
    with OurNameServer(tmp_path / "names") as server:
        yield server.address


def pop(peer: BlockingPeer, count: int = 32) -> Popped:
    header = pop_header(max_msg_nums=count, invisible_time=INVISIBLE_MS)
    return Popped(peer.call(RequestCode.POP_MESSAGE, header))


def ack(peer: BlockingPeer, popped: Popped, index: int) -> None:
    header = ack_header(popped.receipts[index])
    assert peer.call(RequestCode.ACK_MESSAGE, header).code == ResponseCode.SUCCESS


def send(peer: BlockingPeer, *bodies: bytes) -> None:
    for body in bodies:
        receipt_of(peer.call(RequestCode.SEND_MESSAGE_V2, common_send_header(TOPIC), body))


def all_that_come(peer: BlockingPeer, expected: set[bytes], extra_s: float) -> list[bytes]:
    """What is popped until all of them have come, and a while longer; everything is acked."""
    came: list[bytes] = []

    def take() -> None:
        popped = pop(peer)
        came.extend(popped.bodies)
        for index in range(len(popped.bodies)):
            ack(peer, popped, index)

    def have_come() -> bool:
        take()
        return expected <= set(came)

    def is_over() -> bool:
        take()
        return time.monotonic() > ends_s

    wait_until(have_come)
    ends_s = time.monotonic() + extra_s
    wait_until(is_over)
    return came


@pytest.mark.full("waits for Apache's late redeliveries; other stores change hands in both gates")
def test_what_is_in_flight_comes_again_at_whichever_broker_takes_over(
    name_server: str, tmp_path: Path
) -> None:
    name = "broker-a"  # As receipts have it.
    settings = {"timerWheelEnable": "true"}
    # Apache's broker copies our checksum with all other properties, and then it is wrong.
    own = OurBroker(
        tmp_path,
        name_server,
        broker_name=name,
        configuration={"enabledAppendPropCRC": "false"},
    )
    theirs = ApacheBroker(
        ApacheVersion.V5_5_0,
        tmp_path,
        name_server,
        broker_name=name,
        configuration=settings,
    )
    with own:
        create_topic(own.address, TOPIC, 1)
        with BlockingPeer(own.address) as peer:
            send(peer, b"acked here", b"left by us", b"never popped")
            ack(peer, pop(peer, 2), 0)
    with theirs:
        with BlockingPeer(theirs.address) as peer:
            came = all_that_come(peer, {b"left by us", b"never popped"}, APACHE_LATE_S)
            assert sorted(came) == [b"left by us", b"never popped"]
            send(peer, b"acked there", b"left by Apache")
            ack(peer, pop(peer), 0)
        theirs.stop()
    with own, BlockingPeer(own.address) as peer:
        came = all_that_come(peer, {b"left by Apache"}, INVISIBLE_MS / 1000 + 2)
        assert came == [b"left by Apache"]
