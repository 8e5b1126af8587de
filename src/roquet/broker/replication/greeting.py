"""The handshake of `handshake`, over a socket: one function for each side."""

import asyncio
import socket
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from roquet.broker.replication.errors import BadHandshake, LinkClosed, LinkError, Outdated, Rejected
from roquet.broker.replication.handshake import (
    MAGIC,
    PROOF_SIZE,
    SIZE_SIZE,
    Admission,
    Greeting,
    Hello,
    Message,
    Registration,
    Rejection,
    Seal,
    body_size,
    new_nonce,
)

TIMEOUT_S: Final = 10.0

M = TypeVar("M", bound=Message)


async def greet_master(
    sock: socket.socket,
    secret: bytes,
    *,
    cluster: str,
    broker_name: str,
    replica_id: int,
    registration: Callable[[], Registration],
) -> Admission:
    """As a slave. Raises LinkError and OSError, such as TimeoutError."""
    seal = Seal(secret)
    seal.slave_nonce = new_nonce()
    hello = Hello(cluster, broker_name, replica_id, seal.slave_nonce)
    async with asyncio.timeout(TIMEOUT_S):
        await _send(sock, MAGIC + seal.sealed(hello))
        seal.master_nonce = (await _received(sock, seal, Greeting)).nonce
        own = registration()
        await _send(sock, seal.sealed(own))
        answer = await _received(sock, seal, Admission, Rejection)
    if isinstance(answer, Rejection):
        raise Rejected(answer.reason)
    assert isinstance(answer, Admission), "it is of one of the two kinds"
    if answer.epoch < own.seen_epoch:
        raise Outdated(answer.epoch, own.seen_epoch)
    if answer.go_on_at > own.log_end:
        raise BadHandshake(f"nothing goes on at {answer.go_on_at} here")
    return answer


class Greeted(NamedTuple):
    """Whom a master has let in, and where it goes on."""

    hello: Hello
    admission: Admission


async def greet_slave(
    sock: socket.socket,
    secret: bytes,
    *,
    cluster: str,
    broker_name: str,
    admit: Callable[[Hello, Registration], Admission],
) -> Greeted:
    """As a master, after MAGIC was read. `admit` raises LinkError, which the slave is told.

    Raises LinkError and OSError, such as TimeoutError.
    """
    seal = Seal(secret)
    async with asyncio.timeout(TIMEOUT_S):
        hello = await _received(sock, seal, Hello)
        seal.slave_nonce = hello.nonce
        nonce = new_nonce()
        await _send(sock, seal.sealed(Greeting(nonce)))
        seal.master_nonce = nonce
        registration = await _received(sock, seal, Registration)
        try:
            if (hello.cluster, hello.broker_name) != (cluster, broker_name):
                raise Rejected(
                    f"this is {broker_name} of {cluster}, not {hello.broker_name} of"
                    f" {hello.cluster}"
                )
            admission = admit(hello, registration)
        except LinkError as error:
            await _send(sock, seal.sealed(Rejection(str(error))))
            raise
        await _send(sock, seal.sealed(admission))
    return Greeted(hello, admission)


async def received_exactly(sock: socket.socket, size: int) -> bytes:
    """Raises LinkClosed and OSError."""
    loop = asyncio.get_running_loop()
    found = b""
    while len(found) < size:
        data = await loop.sock_recv(sock, size - len(found))
        if not data:
            raise LinkClosed("it has closed the link; its log says why")
        found += data
    return found


async def _send(sock: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(sock, data)


async def _received(sock: socket.socket, seal: Seal, *kinds: type[M]) -> M:
    size = body_size(await received_exactly(sock, SIZE_SIZE))
    rest = await received_exactly(sock, size + PROOF_SIZE)
    return seal.opened(rest[:size], rest[size:], *kinds)
