"""The network of the rigs fails as configured: otherwise they would try nothing."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import wait_until
from tests.support.namespaces import Drop, Network, missing_network

REASON = missing_network()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

PORT = 9000
# What is not there by then was dropped; what has to come may be late on a busy machine.
SHORTLY_S = 0.3
PATIENT_S = 10.0
LOSSY_COUNT = 200


@pytest.fixture
def network() -> Iterator[Network]:
    with Network("a", "b", "c") as network:
        yield network


def receiver(network: Network, host: str) -> socket.socket:
    with network.inside(host):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((network.address(host), PORT))
    sock.settimeout(SHORTLY_S)
    return sock


def arrives(network: Network, source: str, at: socket.socket, within_s: float = PATIENT_S) -> bool:
    """Whether a packet from a host is received."""
    at.settimeout(within_s)
    with network.inside(source), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"hello", at.getsockname())
    try:
        return bool(at.recv(100))
    except TimeoutError:
        return False


def is_dropped(network: Network, source: str, at: socket.socket) -> bool:
    return not arrives(network, source, at, SHORTLY_S)


def test_a_cut_is_silent_in_its_direction_alone_and_ends(network: Network) -> None:
    with receiver(network, "a") as at_a, receiver(network, "b") as at_b:
        assert arrives(network, "a", at_b)
        with network.dropping(Drop("a", "b")):
            assert is_dropped(network, "a", at_b)
            assert arrives(network, "b", at_a)
            assert arrives(network, "c", at_b)
        assert arrives(network, "a", at_b)


def test_one_cut_may_end_while_another_continues(network: Network) -> None:
    with receiver(network, "b") as at_b, network.dropping(Drop("a", "b")):
        with network.dropping(Drop("a", "b"), Drop("c", "b")):
            assert is_dropped(network, "c", at_b)
        assert arrives(network, "c", at_b)
        assert is_dropped(network, "a", at_b)


def test_some_of_a_hundred_are_lost(network: Network) -> None:
    with receiver(network, "b") as at_b, network.dropping(Drop("a", "b", 30)):
        with network.inside("a"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(LOSSY_COUNT):
                sender.sendto(b"hello", at_b.getsockname())
        received = 0
        try:
            while at_b.recv(100):
                received += 1
        except TimeoutError:
            pass
    # 140 are to be expected; what is outside of this happens in none of a million runs.
    assert 105 < received < 175


def test_a_slow_line_takes_its_time(network: Network) -> None:
    """1 Mbit/s: most of a hundred kilobytes waits, and none of it is lost."""
    data = bytes(100_000)
    got = bytearray()
    with network.inside("b"):
        listener = socket.create_server((network.address("b"), PORT))

    def take() -> None:
        taken, _ = listener.accept()
        with taken:
            while piece := taken.recv(65_536):
                got.extend(piece)

    thread = threading.Thread(target=take)
    thread.start()
    with listener, network.slowed("a", "1mbit"):
        with network.inside("a"), socket.create_connection(listener.getsockname()) as sender:
            sender.sendall(data[:100])
            wait_until(lambda: len(got) == 100)
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * len(data))
            sender.sendall(data[100:])
            assert len(got) < len(data) // 2
        thread.join()
    assert got == data


def test_a_thread_leaves_the_namespace_again(network: Network) -> None:
    def namespace() -> Path:
        return Path("/proc/thread-self/ns/net").readlink()

    before = namespace()
    with network.inside("a"):
        assert namespace() != before
    assert namespace() == before
