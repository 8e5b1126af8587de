"""The simulated network keeps the promises of TCP, and no others."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.faults.simulation.network import End, Network
from tests.faults.simulation.virtual_loop import VirtualLoop

ADDRESS = ("127.0.0.1", 7)


class Peer(asyncio.Protocol):
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.received = b""
        self.end: End
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.calls: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, End)
        self.end = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(error)

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")


def on_a_network(main: Callable[[Network, Peer, Peer], Awaitable[None]], seed: int = 1) -> None:
    """Runs `main` with a client and its server."""
    loop = VirtualLoop(seed)

    async def connected() -> None:
        accepted: list[Peer] = []

        def accept() -> Peer:
            accepted.append(Peer())
            return accepted[-1]

        loop.network.listen(*ADDRESS, accept)
        _, client = await loop.network.connect(*ADDRESS, Peer)
        await main(loop.network, client, accepted[0])

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(connected())


@pytest.mark.parametrize("seed", range(20))
def test_bytes_arrive_whole_and_in_order(seed: int) -> None:
    async def main(network: Network, client: Peer, server: Peer) -> None:
        network.late, network.lost = 0.5, 0.2
        pieces = [b"%d," % number * 10 for number in range(50)]
        for piece in pieces:
            client.end.write(piece)
            await asyncio.sleep(network.chance.uniform(0, 0.01))
        await asyncio.sleep(10)
        assert server.received == b"".join(pieces)

    on_a_network(main, seed)


def test_a_close_arrives_behind_what_was_written() -> None:
    async def main(_network: Network, client: Peer, server: Peer) -> None:
        client.end.write(b"last words")
        client.end.close()
        assert await server.lost is None
        assert server.received == b"last words"
        assert await client.lost is None

    on_a_network(main)


def test_both_sides_hear_of_a_cut() -> None:
    async def main(network: Network, client: Peer, server: Peer) -> None:
        (ends,) = network.ends
        client.end.write(b"on its way")
        network.cut(ends)
        assert isinstance(await client.lost, ConnectionResetError)
        assert isinstance(await server.lost, ConnectionResetError)
        assert server.received == b""
        assert network.ends == []

    on_a_network(main)


def test_a_silent_client_gets_everything_later() -> None:
    async def main(network: Network, client: Peer, server: Peer) -> None:
        network.silent.add(ADDRESS)
        client.end.write(b"first ")
        await asyncio.sleep(5)
        client.end.write(b"second")
        assert server.received == b""
        network.silent.clear()
        await asyncio.sleep(1)
        assert server.received == b"first second"

    on_a_network(main)


def test_no_server_listens_at_an_address_that_was_left() -> None:
    async def main(network: Network, _client: Peer, _server: Peer) -> None:
        network.drop_all_of(ADDRESS[1])
        with pytest.raises(ConnectionRefusedError):
            await network.connect(*ADDRESS, Peer)

    on_a_network(main)


def test_a_writer_is_held_back_by_a_peer_that_does_not_read() -> None:
    async def main(_network: Network, client: Peer, server: Peer) -> None:
        client.end.set_write_buffer_limits(high=100)
        server.end.pause_reading()
        client.end.write(bytes(101))
        await asyncio.sleep(1)
        assert client.calls == ["pause"]
        server.end.resume_reading()
        await asyncio.sleep(1)
        assert client.calls == ["pause", "resume"]
        assert len(server.received) == 101

    on_a_network(main)
