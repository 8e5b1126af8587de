"""What two brokers say to each other first, and what is not believed."""

import pytest

from roquet.broker.replication.epochs import EpochStart
from roquet.broker.replication.errors import BadHandshake, NotTrusted
from roquet.broker.replication.handshake import (
    BODY_SIZE_MAX,
    MAGIC,
    NONCE_SIZE,
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

SECRET = b"a secret of many bytes"
HELLO = Hello("cluster", "broker-a", 2, bytes(NONCE_SIZE))
MESSAGES: list[Message] = [
    HELLO,
    Greeting(bytes(NONCE_SIZE)),
    Registration("author", 3, (EpochStart(3, 0, "x"),), 0, 500),
    Admission(4, (EpochStart(3, 0, "x"), EpochStart(4, 90, "y")), 90),
    Rejection("no"),
]


def seal(secret: bytes = SECRET, slave_nonce: bytes = b"s" * 16, master_nonce: bytes = b"") -> Seal:
    found = Seal(secret)
    found.slave_nonce, found.master_nonce = slave_nonce, master_nonce
    return found


def parts(sealed: bytes) -> tuple[bytes, bytes]:
    size = body_size(sealed[:SIZE_SIZE])
    body, proof = sealed[SIZE_SIZE:][:size], sealed[SIZE_SIZE + size :]
    assert len(proof) == PROOF_SIZE
    return body, proof


def test_no_report_of_an_apache_slave_looks_like_a_hello() -> None:
    assert int.from_bytes(MAGIC, signed=True) < 0


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_a_message_is_what_was_sealed(message: Message) -> None:
    assert seal().opened(*parts(seal().sealed(message)), type(message)) == message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_who_has_another_secret_is_not_trusted(message: Message) -> None:
    with pytest.raises(NotTrusted):
        seal().opened(*parts(seal(b"another secret").sealed(message)), type(message))


@pytest.mark.parametrize("message", MESSAGES[1:], ids=lambda each: type(each).__name__)
def test_what_was_recorded_on_another_link_is_not_trusted(message: Message) -> None:
    with pytest.raises(NotTrusted):
        seal(slave_nonce=new_nonce()).opened(*parts(seal().sealed(message)), type(message))


def test_a_registration_is_fresh_for_the_master() -> None:
    recorded = parts(seal(master_nonce=new_nonce()).sealed(MESSAGES[2]))
    with pytest.raises(NotTrusted):
        seal(master_nonce=new_nonce()).opened(*recorded, Registration)


def test_a_message_is_not_taken_for_one_of_another_kind() -> None:
    with pytest.raises(NotTrusted):
        seal().opened(*parts(seal().sealed(MESSAGES[2])), Admission)


def test_every_changed_byte_is_noticed() -> None:
    body, proof = parts(seal().sealed(HELLO))
    for position in range(len(body)):
        changed = bytearray(body)
        changed[position] ^= 1
        with pytest.raises(NotTrusted):
            seal().opened(bytes(changed), proof, Hello)


@pytest.mark.parametrize("size", [-1, 0, BODY_SIZE_MAX + 1])
def test_impossible_sizes_are_refused_before_anything_is_read(size: int) -> None:
    with pytest.raises(BadHandshake):
        body_size(size.to_bytes(4, signed=True))


@pytest.mark.parametrize(
    "message",
    [
        Admission(4, (EpochStart(4, 90, "y"), EpochStart(3, 0, "x")), 90),
        Greeting(b"short"),
    ],
)
def test_nonsense_of_a_trusted_peer_is_named(message: Message) -> None:
    with pytest.raises(BadHandshake):
        seal().opened(*parts(seal().sealed(message)), type(message))
