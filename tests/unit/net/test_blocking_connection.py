"""Calls that block their thread, against a socket that answers as it is told."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from roquet.net.blocking_connection import BlockingConnection
from roquet.net.errors import CallTimedOut, ConnectFailed, ConnectionLost
from roquet.protocol.codes import CommandFlag
from roquet.protocol.command import Command, encode_command
from roquet.protocol.host import Address

CODE = 310


def request(opaque: int) -> bytes:
    return encode_command(Command(CODE, opaque=opaque))


def response(opaque: int, remark: str = "") -> bytes:
    return encode_command(Command(0, opaque=opaque, flag=CommandFlag.RESPONSE, remark=remark))


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def pair(listening: socket.socket) -> Iterator[tuple[BlockingConnection, socket.socket]]:
    place = Address(*listening.getsockname())
    connection = BlockingConnection("here:1", place, 10.0)
    peer, _ = listening.accept()
    with peer:
        yield connection, peer
        connection.close()


def answering(peer: socket.socket, answer: Callable[[socket.socket], None]) -> threading.Thread:
    def serve() -> None:
        peer.recv(65536)
        answer(peer)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_a_response_may_come_in_pieces(pair: tuple[BlockingConnection, socket.socket]) -> None:
    connection, peer = pair

    def answer(peer: socket.socket) -> None:
        # A response to no call comes first, and a request, which is ignored.
        for byte in response(99) + request(0) + response(0, "right"):
            peer.sendall(bytes([byte]))

    thread = answering(peer, answer)
    assert connection.call_by(CODE, request, 30.0).remark == "right"
    thread.join()
    assert connection.is_silent


def test_each_call_has_an_opaque_of_its_own(
    pair: tuple[BlockingConnection, socket.socket],
) -> None:
    connection, peer = pair
    for opaque in range(3):
        thread = answering(peer, lambda peer, opaque=opaque: peer.sendall(response(opaque)))  # type: ignore[misc]
        assert connection.call_by(CODE, request, 30.0).opaque == opaque
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        lambda peer: peer.close(),
        lambda peer: peer.sendall(b"\xff" * 64),
        lambda peer: peer.sendall(response(0)[:-1]) or peer.shutdown(socket.SHUT_RDWR),
    ],
    ids=["closed", "garbage", "half"],
)
def test_without_a_response_the_outcome_is_unknown(
    pair: tuple[BlockingConnection, socket.socket], answer: Callable[[socket.socket], None]
) -> None:
    connection, peer = pair
    thread = answering(peer, answer)
    with pytest.raises(ConnectionLost) as raised:
        connection.call_by(CODE, request, 30.0)
    thread.join()
    assert raised.value.address == "here:1"


def test_a_call_ends_at_its_deadline_however_much_else_comes(
    pair: tuple[BlockingConnection, socket.socket],
) -> None:
    connection, peer = pair
    is_over = threading.Event()

    def answer(peer: socket.socket) -> None:
        try:
            while not is_over.wait(0.02):
                peer.sendall(response(99))
        except OSError:
            return

    thread = answering(peer, answer)
    with pytest.raises(CallTimedOut) as raised:
        connection.call_by(CODE, request, 0.2)
    is_over.set()
    thread.join()
    assert raised.value.timeout_s == 0.2


def test_a_peer_that_closed_it_is_noticed_before_a_call(
    pair: tuple[BlockingConnection, socket.socket],
) -> None:
    connection, peer = pair
    assert connection.is_silent
    peer.close()
    assert not connection.is_silent


def test_an_address_without_a_server_is_an_error(listening: socket.socket) -> None:
    place = Address(*listening.getsockname())
    listening.close()
    with pytest.raises(ConnectFailed):
        BlockingConnection("here:1", place, 10.0)


def test_another_thread_can_end_a_call(pair: tuple[BlockingConnection, socket.socket]) -> None:
    connection, peer = pair
    thread = answering(peer, lambda _peer: connection.shut_down())
    with pytest.raises(ConnectionLost):
        connection.call_by(CODE, request, 30.0)
    thread.join()


def test_a_signal_that_raises_ends_the_call_and_the_connection(
    pair: tuple[BlockingConnection, socket.socket],
) -> None:
    connection, peer = pair

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        main = threading.main_thread().ident
        assert main is not None
        thread = answering(peer, lambda _peer: signal.pthread_kill(main, signal.SIGUSR1))
        with pytest.raises(KeyboardInterrupt):
            connection.call_by(CODE, request, 30.0)
        thread.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert peer.recv(1) == b""
