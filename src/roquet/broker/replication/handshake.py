"""How two of our own brokers start a link: each proves that it knows the shared secret.

    slave                                             master
      MAGIC, Hello: who I am, a nonce        --->
                                             <---     Greeting: a nonce of its own
      Registration: epochs, end of the log   --->
                                             <---     Admission: epoch, epochs, where to resume
                                                      or Rejection: why not

An Apache slave starts with the end of its log, which is never negative, so its first byte is never
that of MAGIC. Each message after it is

      0  int32  size of the body
      4  ...    body, JSON
    ...  32     HMAC-SHA256 by the secret, over the side, both nonces and the body

The Hello has only its own nonce to sign. A Registration is fresh because it is signed with the
master's nonce, an answer because it is signed with the slave's.
"""

import asyncio
import os
from collections.abc import Callable
from struct import Struct
from types import ModuleType
from typing import Final, TypeVar, final

import msgspec

from roquet.broker.replication.epochs import EpochStart, is_history
from roquet.broker.replication.errors import (
    BadHandshake,
    LinkClosed,
    LinkError,
    NotTrusted,
    Outdated,
    Rejected,
)
from roquet.broker.replication.in_sync import AckRule
from roquet.net.byte_stream import ByteStream

MAGIC: Final = b"\xffROQUET\x01"
NONCE_SIZE: Final = 16
PROOF_SIZE: Final = 32
BODY_SIZE_MAX: Final = 1 << 20
_SIZE: Final = Struct(">i")
SIZE_SIZE: Final = _SIZE.size
TIMEOUT_S: Final = 10.0


class Hello(msgspec.Struct, frozen=True, tag=True):
    cluster: str
    broker_name: str
    replica_id: int
    nonce: bytes


class Greeting(msgspec.Struct, frozen=True, tag=True):
    nonce: bytes


class Registration(msgspec.Struct, frozen=True, tag=True):
    author: str  # under which name its store is in histories
    seen_epoch: int  # the latest that the slave knows of
    epochs: tuple[EpochStart, ...]
    log_start: int
    log_end: int
    # Where clients find this broker; older brokers do not send it.
    address: str = ""


class Admission(msgspec.Struct, frozen=True, tag=True):
    epoch: int
    epochs: tuple[EpochStart, ...]
    # What the slave has after it was never the master's.
    go_on_at: int
    # What senders are promised, whichever broker is the master; older brokers do not send it.
    ack_rule: AckRule | None = None


class Rejection(msgspec.Struct, frozen=True, tag=True):
    reason: str


Message = Hello | Greeting | Registration | Admission | Rejection
M = TypeVar("M", bound=Message)


def new_nonce() -> bytes:
    return os.urandom(NONCE_SIZE)


def body_size(prefix: bytes) -> int:
    """Raises BadHandshake."""
    (size,) = _SIZE.unpack(prefix)
    if not 0 < size <= BODY_SIZE_MAX:
        raise BadHandshake(f"a message cannot have {size} bytes")
    assert isinstance(size, int)
    return size


@final
class Seal:
    """Signs and checks the messages of one handshake. The nonces are known one after the other."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.slave_nonce = b""
        self.master_nonce = b""

    def sealed(self, message: Message) -> bytes:
        body = msgspec.json.encode(message)
        return _SIZE.pack(len(body)) + body + self._proof(type(message), body)

    def opened(self, body: bytes, proof: bytes, *kinds: type[M]) -> M:
        """Raises NotTrusted and BadHandshake."""
        # Its kind must not be trusted before the signature is verified.
        if not any(_hmac().compare_digest(self._proof(kind, body), proof) for kind in kinds):
            raise NotTrusted
        try:
            message = msgspec.json.decode(body, type=Message)
        except msgspec.MsgspecError as error:
            raise BadHandshake(str(error)) from None
        if not isinstance(message, kinds):
            raise BadHandshake(f"a {type(message).__name__} was not expected")
        if isinstance(message, Registration | Admission) and not is_history(message.epochs):
            raise BadHandshake("its epochs are not in ascending order")
        if isinstance(message, Hello | Greeting) and len(message.nonce) != NONCE_SIZE:
            raise BadHandshake(f"a nonce has {NONCE_SIZE} bytes")
        return message

    def _proof(self, kind: type[object], body: bytes) -> bytes:
        nonces = b"" if kind is Hello else self.slave_nonce + self.master_nonce
        # A Greeting is signed before its own nonce is known to the slave; it is in the body.
        if kind is Greeting:
            nonces = self.slave_nonce
        label = kind.__name__.encode()
        return bytes(_hmac().digest(self._secret, b"\0".join((label, nonces, body)), "sha256"))


def _hmac() -> ModuleType:
    """Loaded late: most brokers have no secret, and start faster without it."""
    import hmac  # noqa: PLC0415

    return hmac


async def register_at_master(
    stream: ByteStream,
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
        await stream.send_all(MAGIC + seal.sealed(hello))
        seal.master_nonce = (await _received(stream, seal, Greeting)).nonce
        own = registration()
        await stream.send_all(seal.sealed(own))
        answer = await _received(stream, seal, Admission, Rejection)
    if isinstance(answer, Rejection):
        raise Rejected(answer.reason)
    assert isinstance(answer, Admission), "it is of one of the two kinds"
    if answer.epoch < own.seen_epoch:
        raise Outdated(answer.epoch, own.seen_epoch)
    if answer.go_on_at > own.log_end:
        raise BadHandshake(f"this log ends before {answer.go_on_at}, where it should resume")
    return answer


class AcceptedSlave(msgspec.Struct, frozen=True):
    """A slave that a master has admitted, and where it resumes."""

    hello: Hello
    registration: Registration
    admission: Admission


async def accept_slave(
    stream: ByteStream,
    secret: bytes,
    *,
    cluster: str,
    broker_name: str,
    admit: Callable[[Hello, Registration], Admission],
) -> AcceptedSlave:
    """As a master, after MAGIC was read. A LinkError that `admit` raises is sent to the slave.

    Raises LinkError, TlsRefused and OSError, such as TimeoutError.
    """
    seal = Seal(secret)
    async with asyncio.timeout(TIMEOUT_S):
        hello = await _received(stream, seal, Hello)
        seal.slave_nonce = hello.nonce
        nonce = new_nonce()
        await stream.send_all(seal.sealed(Greeting(nonce)))
        seal.master_nonce = nonce
        registration = await _received(stream, seal, Registration)
        try:
            if (hello.cluster, hello.broker_name) != (cluster, broker_name):
                raise Rejected(
                    f"this is {broker_name} of cluster {cluster}, not {hello.broker_name} of"
                    f" cluster {hello.cluster}"
                )
            admission = admit(hello, registration)
        except LinkError as error:
            await stream.send_all(seal.sealed(Rejection(str(error))))
            raise
        await stream.send_all(seal.sealed(admission))
    return AcceptedSlave(hello, registration, admission)


async def received_exactly(stream: ByteStream, size: int) -> bytes:
    """Raises LinkClosed, TlsRefused and OSError."""
    found = bytearray(size)
    rest = memoryview(found)
    while rest:
        received = await stream.receive_into(rest)
        if not received:
            raise LinkClosed("the peer closed the link; see its log for the reason")
        rest = rest[received:]
    return bytes(found)


async def _received(stream: ByteStream, seal: Seal, *kinds: type[M]) -> M:
    size = body_size(await received_exactly(stream, SIZE_SIZE))
    rest = await received_exactly(stream, size + PROOF_SIZE)
    return seal.opened(rest[:size], rest[size:], *kinds)
