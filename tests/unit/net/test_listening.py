"""Who connects is accepted, or waits until there is a descriptor."""

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import pytest

from roquet.net import listening
from roquet.net.listening import Listener, free_port, is_of_this_machine, may_keep
from tests.support.eventually import eventually
from tests.support.few_descriptors import few_descriptors_left
from tests.support.raising import raises


class Doors:
    """What a listener made, and what it had to say. Peers come in where it `is_open`."""

    def __init__(self, is_open: Callable[[socket.socket], bool] = lambda _: True) -> None:
        self._is_open = is_open
        self.opened: list[asyncio.Transport] = []
        self.peers: list[object] = []
        self.shortages: list[OSError] = []

    def new(self) -> asyncio.Protocol:
        doors = self

        class Door(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                doors.opened.append(cast("asyncio.Transport", transport))
                doors.peers.append(transport.get_extra_info("peername", "gone"))
                if not doors._is_open(transport.get_extra_info("socket")):
                    doors.opened[-1].abort()

        return Door()

    async def listen(self, host: str = "127.0.0.1") -> tuple[Listener, int]:
        port = free_port("127.0.0.1")
        return await Listener.open(host, port, self.new, self.shortages.append), port

    async def close(self, listener: Listener) -> None:
        await listener.close()
        for transport in self.opened:
            transport.close()
        # A transport closes its socket in the next turn.
        await asyncio.sleep(0)
        await asyncio.sleep(0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_all_that_connect_are_accepted(host: str) -> None:
    doors = Doors()
    listener, port = await doors.listen(host)
    peers = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
    await eventually(lambda: len(doors.opened) == 200)
    accepted = doors.opened[0].get_extra_info("socket")
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    for peer in peers:
        peer.close()
    await doors.close(listener)


async def test_without_descriptors_it_pauses_and_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_PAUSE_S", 0.01)
    doors = Doors()
    listener, port = await doors.listen()
    # Before there are none left: connecting takes a descriptor, too.
    peers = [socket.socket() for _ in range(3)]
    with few_descriptors_left(1):
        for peer in peers:
            peer.connect(("127.0.0.1", port))
        await eventually(lambda: len(doors.shortages) >= 2)
        assert len(doors.opened) == 1
    await eventually(lambda: len(doors.opened) == 3)
    for peer in peers:
        peer.close()
    await doors.close(listener)


async def test_a_burst_of_peers_that_are_refused_leaves_files_their_descriptors() -> None:
    doors = Doors(is_open=lambda accepted: may_keep(accepted.fileno(), is_local=False))
    listener, port = await doors.listen()
    # More at once than there are descriptors.
    peers = [socket.socket() for _ in range(60)]
    with few_descriptors_left(40):
        for peer in peers:
            peer.connect(("127.0.0.1", port))
        await eventually(lambda: len(doors.opened) == len(peers))
        assert not doors.shortages
    for peer in peers:
        peer.close()
    await doors.close(listener)


async def test_a_listener_that_pauses_can_be_closed() -> None:
    doors = Doors()
    listener, port = await doors.listen()
    peer = socket.socket()
    with few_descriptors_left(0):
        peer.connect(("127.0.0.1", port))
        await eventually(lambda: len(doors.shortages) == 1)
        await listener.close()
    peer.close()
    assert doors.opened == []


async def test_no_connection_is_accepted_after_the_end() -> None:
    doors = Doors()
    listener, port = await doors.listen()
    await doors.close(listener)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


async def test_a_peer_that_is_gone_again_is_harmless() -> None:
    doors = Doors()
    listener, port = await doors.listen()
    for _ in range(20):
        peer = socket.create_connection(("127.0.0.1", port))
        with suppress(OSError):
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0] + [0] * 4))
        peer.close()
    with socket.create_connection(("127.0.0.1", port)) as peer:
        address = peer.getsockname()
        await eventually(lambda: address in doors.peers)
    await doors.close(listener)


async def test_an_address_that_is_taken_leaves_nothing_open() -> None:
    doors = Doors()
    listener, port = await doors.listen()
    with raises(OSError, errno=errno.EADDRINUSE):
        await Listener.open("127.0.0.1", port, doors.new, doors.shortages.append)
    await doors.close(listener)


class Ends(asyncio.BaseTransport):
    """A transport that has nothing but its two addresses."""

    def __init__(self, peer: tuple[str, int] | None, own: tuple[str, int]) -> None:
        super().__init__({"peername": peer, "sockname": own})


@pytest.mark.parametrize(
    ("peer", "own", "is_local"),
    [
        (("127.0.0.1", 5000), ("127.0.0.1", 10911), True),
        (("::1", 5000), ("::1", 10911), True),
        # The address that clients get, from the machine itself.
        (("198.51.100.7", 5000), ("198.51.100.7", 10911), True),
        (("198.51.100.8", 5000), ("198.51.100.7", 10911), False),
        (None, ("198.51.100.7", 10911), False),
    ],
)
def test_peers_of_the_machine_itself_are_known_by_their_address(
    peer: tuple[str, int] | None, own: tuple[str, int], is_local: bool
) -> None:
    assert is_of_this_machine(Ends(peer, own)) == is_local
