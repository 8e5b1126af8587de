"""The loop of servers: what it adds to asyncio's."""

import asyncio
import socket
import threading
from pathlib import Path

import pytest

from roquet.net.epoll_loop import EpollLoop
from roquet.net.epoll_sockets import SocketTransport
from tests.support.eventually import eventually

pytestmark = pytest.mark.asyncio(loop_factories=["epoll"])


async def test_its_sockets_are_compiled() -> None:
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    transport, _ = await asyncio.get_running_loop().connect_accepted_socket(asyncio.Protocol, ours)
    assert type(transport) is SocketTransport
    transport.abort()
    peer.close()


async def test_servers_of_asyncio_work_on_it() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"hello\n")
        assert await reader.read() == b"HELLO\n"
        writer.close()
        await writer.wait_closed()


async def test_other_threads_wake_it() -> None:
    loop = asyncio.get_running_loop()
    for _ in range(200):
        event = asyncio.Event()
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(event.set,))
        thread.start()
        async with asyncio.timeout(10):
            await event.wait()
        thread.join()


def descriptor_count() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def check_close() -> None:
    count = descriptor_count()
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    loop = EpollLoop()
    loop.run_until_complete(loop.connect_accepted_socket(asyncio.Protocol, ours))
    loop.close()
    # A thread that comes too late does no harm.
    loop._write_to_self()
    ours.close()
    peer.close()
    assert descriptor_count() == count


async def test_a_closed_loop_lets_go_of_everything() -> None:
    """Another one, in a thread."""
    await asyncio.to_thread(check_close)


async def test_readers_and_writers_are_called_at_the_end_of_a_peer() -> None:
    loop = asyncio.get_running_loop()
    ours, peer = socket.socketpair()
    seen: list[str] = []

    def called(what: str) -> None:
        seen.append(what)
        (loop.remove_writer if what == "write" else loop.remove_reader)(ours)

    loop.add_writer(ours, called, "write")
    loop.add_reader(ours, called, "read")
    await eventually(lambda: seen == ["write"])
    peer.close()
    await eventually(lambda: seen == ["write", "read"])
    ours.close()


async def test_a_timer_is_never_early() -> None:
    loop = asyncio.get_running_loop()
    due_s = loop.time() + 0.0105
    called = asyncio.Event()
    loop.call_at(due_s, called.set)
    await called.wait()
    assert loop.time() >= due_s


async def test_names_and_addresses_are_looked_up() -> None:
    loop = asyncio.get_running_loop()
    found = [
        (await loop.getaddrinfo(host, 80))[0][-1][0] for host in ("127.0.0.1", "::1", "localhost")
    ]
    assert found[:2] == ["127.0.0.1", "::1"]
    assert found[2] in ("127.0.0.1", "::1")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_it_connects_to_names_and_addresses(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as sock:
        sock.setblocking(False)
        port = listening.getsockname()[1]
        await asyncio.get_running_loop().sock_connect(sock, (host, port))
        assert sock.getpeername() == ("127.0.0.1", port)


async def test_a_connection_that_is_refused_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        place = listening.getsockname()
    with socket.socket() as sock:
        sock.setblocking(False)
        with pytest.raises(ConnectionRefusedError, match="Connection refused"):
            await asyncio.get_running_loop().sock_connect(sock, place)
