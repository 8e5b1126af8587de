"""The handshake of `handshake`, over a wire: one function for each side."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

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
from roquet.net.wire import Wire

TIMEOUT_S: Final = 10.0

M = TypeVar("M", bound=Message)


async def greet_master(
    wire: Wire,
    secret: bytes,
    *,
    cluster: str,
    broker_name: str,
    replica_id: int,
    registration: Callable[[], Registration],
) -> Admission:
    """As a slave. Raises LinkError, TlsRefused and OSError, such as TimeoutError."""
    seal = Seal(secret)
    seal.slave_nonce = new_nonce()
    hello = Hello(cluster, broker_name, replica_id, seal.slave_nonce)
    async with asyncio.timeout(TIMEOUT_S):
        await wire.send_all(MAGIC + seal.sealed(hello))
        seal.master_nonce = (await _received(wire, seal, Greeting)).nonce
        own = registration()
        await wire.send_all(seal.sealed(own))
        answer = await _received(wire, seal, Admission, Rejection)
    if isinstance(answer, Rejection):
        raise Rejected(answer.reason)
    assert isinstance(answer, Admission), "it is of one of the two kinds"
    if answer.epoch < own.seen_epoch:
        raise Outdated(answer.epoch, own.seen_epoch)
    if answer.go_on_at > own.log_end:
        raise BadHandshake(f"nothing goes on at {answer.go_on_at} here")
    return answer


class Greeted(msgspec.Struct, frozen=True):
    """Whom a master has let in, and where it goes on."""

    hello: Hello
    registration: Registration
    admission: Admission


async def greet_slave(
    wire: Wire,
    secret: bytes,
    *,
    cluster: str,
    broker_name: str,
    admit: Callable[[Hello, Registration], Admission],
) -> Greeted:
    """As a master, after MAGIC was read. `admit` raises LinkError, which the slave is told.

    Raises LinkError, TlsRefused and OSError, such as TimeoutError.
    """
    seal = Seal(secret)
    async with asyncio.timeout(TIMEOUT_S):
        hello = await _received(wire, seal, Hello)
        seal.slave_nonce = hello.nonce
        nonce = new_nonce()
        await wire.send_all(seal.sealed(Greeting(nonce)))
        seal.master_nonce = nonce
        registration = await _received(wire, seal, Registration)
        try:
            if (hello.cluster, hello.broker_name) != (cluster, broker_name):
                raise Rejected(
                    f"this is {broker_name} of {cluster}, not {hello.broker_name} of"
                    f" {hello.cluster}"
                )
            admission = admit(hello, registration)
        except LinkError as error:
            await wire.send_all(seal.sealed(Rejection(str(error))))
            raise
        await wire.send_all(seal.sealed(admission))
    return Greeted(hello, registration, admission)


async def received_exactly(wire: Wire, size: int) -> bytes:
    """Raises LinkClosed, TlsRefused and OSError."""
    found = bytearray(size)
    rest = memoryview(found)
    while rest:
        received = await wire.receive_into(rest)
        if not received:
            raise LinkClosed("it has closed the link; its log says why")
        rest = rest[received:]
    return bytes(found)


async def _received(wire: Wire, seal: Seal, *kinds: type[M]) -> M:
    size = body_size(await received_exactly(wire, SIZE_SIZE))
    rest = await received_exactly(wire, size + PROOF_SIZE)
    return seal.opened(rest[:size], rest[size:], *kinds)
