"""What two brokers say to each other first, and what is not believed."""

import asyncio
from pathlib import Path

import pytest

from roquet.broker.replication.epochs import EpochFile, EpochStart, SharedSecret
from roquet.broker.replication.errors import BadHandshake, NotTrusted
from roquet.broker.replication.frames import encode_report
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
from roquet.broker.replication.in_sync import AckPolicy, AckRule, Replica
from tests.support.drafts import draft
from tests.support.eventually import eventually
from tests.support.golden_replication import log_bytes
from tests.support.quick_disk import QuickDisk
from tests.support.replicas import Master, raw_slave, running_slave, serving_master

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
def test_a_slave_that_has_another_secret_is_not_trusted(message: Message) -> None:
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


def shared(root: Path, key: bytes = SECRET) -> SharedSecret:
    return SharedSecret(key, EpochFile(QuickDisk(), root))


def fill(master: Master, count: int) -> None:
    for number in range(count):
        master.store.append(draft(b"%d" % number * 100))


async def test_a_slave_with_the_secret_has_log_and_epochs_of_its_master(tmp_path: Path) -> None:
    mine, theirs = shared(tmp_path / "master"), shared(tmp_path / "slave")
    mine.epochs.begin(3, 0)
    async with serving_master(tmp_path / "master", secret=mine) as master:
        fill(master, 50)
        async with running_slave(tmp_path / "slave", master.address, secret=theirs) as slave:
            await eventually(lambda: master.replicas.confirmed_end == master.store.log_end)
            assert slave.link.epoch == 3
            assert slave.link.lag_size == 0
            assert theirs.epochs.history == mine.epochs.history
            assert master.replicas.slaves[0].replica == Replica(2, theirs.epochs.author)
    assert log_bytes(tmp_path / "slave") == log_bytes(tmp_path / "master")


async def test_a_slave_with_another_secret_gets_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = shared(tmp_path / "slave", b"a secret of somebody else")
    async with (
        serving_master(tmp_path / "master", secret=shared(tmp_path / "master")) as master,
        running_slave(tmp_path / "slave", master.address, secret=stranger) as slave,
    ):
        fill(master, 5)
        await eventually(lambda: "does not know the secret" in caplog.text)
        assert slave.store.log_end == 0
        assert master.replicas.slaves == []


@pytest.mark.parametrize("takes_plain_slaves", [False, True])
async def test_slaves_without_a_secret_follow_where_they_may(
    tmp_path: Path, *, takes_plain_slaves: bool
) -> None:
    mine = shared(tmp_path)
    async with (
        serving_master(tmp_path, secret=mine, takes_plain_slaves=takes_plain_slaves) as master,
        raw_slave(master.port) as (reader, writer),
    ):
        fill(master, 1)
        writer.write(encode_report(0))
        data = await asyncio.wait_for(reader.read(100), 30)
        assert bool(data) is takes_plain_slaves


async def test_a_master_that_is_outdated_is_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine, theirs = shared(tmp_path / "master"), shared(tmp_path / "slave")
    mine.epochs.begin(3, 0)
    theirs.epochs.see(4)
    async with (
        serving_master(tmp_path / "master", secret=mine) as master,
        running_slave(tmp_path / "slave", master.address, secret=theirs) as slave,
    ):
        fill(master, 5)
        await eventually(lambda: "epoch 3 is over: there is a master of epoch 4" in caplog.text)
        assert slave.store.log_end == 0


async def test_what_the_master_never_had_is_reported_to_the_slave(tmp_path: Path) -> None:
    mine, theirs = shared(tmp_path / "master"), shared(tmp_path / "slave")
    end = await old_master(tmp_path / "slave", theirs)
    mine.epochs.follow(1, theirs.epochs.history.starts)
    diverged: list[int] = []
    async with serving_master(tmp_path / "master", secret=mine) as master:
        fill(master, 1)
        common_end = master.store.log_end
        mine.epochs.begin(2, common_end)
        async with running_slave(
            tmp_path / "slave", master.address, secret=theirs, on_diverged=diverged.append
        ) as slave:
            await eventually(lambda: diverged)
            assert diverged[0] == common_end
            assert slave.store.log_end == end


async def test_a_master_without_a_log_does_not_make_its_slaves_cut_all_of_theirs(
    tmp_path: Path,
) -> None:
    mine, theirs = shared(tmp_path / "master"), shared(tmp_path / "slave")
    end = await old_master(tmp_path / "slave", theirs)
    mine.epochs.follow(1, theirs.epochs.history.starts)
    mine.epochs.begin(2, 0)
    diverged: list[int] = []
    async with (
        serving_master(tmp_path / "master", secret=mine) as master,
        running_slave(
            tmp_path / "slave", master.address, secret=theirs, on_diverged=diverged.append
        ) as slave,
    ):
        await eventually(lambda: slave.link.problem)
        assert "nothing is cut" in (slave.link.problem or "")
        assert (diverged, slave.store.log_end) == ([], end)


async def test_a_slave_learns_what_its_master_guarantees(tmp_path: Path) -> None:
    mine, theirs = shared(tmp_path / "master"), shared(tmp_path / "slave")
    mine.epochs.begin(3, 0)
    rule = AckRule(AckPolicy.QUORUM, 5)
    async with (
        serving_master(
            tmp_path / "master", secret=mine, ack_policy=rule.policy, replica_count=5
        ) as master,
        running_slave(tmp_path / "slave", master.address, secret=theirs) as slave,
    ):
        await eventually(lambda: slave.link.master)
    assert shared(tmp_path / "slave").epochs.ack_rule == rule


async def test_a_second_store_under_one_number_is_not_let_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine, theirs = shared(tmp_path / "master"), shared(tmp_path / "slave")
    intruder = shared(tmp_path / "intruder")
    mine.epochs.begin(3, 0)
    async with (
        serving_master(tmp_path / "master", secret=mine) as master,
        running_slave(tmp_path / "slave", master.address, secret=theirs),
    ):
        await eventually(lambda: master.replicas.slaves)
        first = master.replicas.slaves[0]
        async with running_slave(tmp_path / "intruder", master.address, secret=intruder) as second:
            await eventually(lambda: second.link.problem)
            assert "brokerId=2 is in use by" in (second.link.problem or "")
        assert master.replicas.slaves == [first]
    assert "refusing slave 127.0.0.1:" in caplog.text


async def old_master(directory: Path, known: SharedSecret) -> int:
    """Three records of epoch 1, and where they end."""
    async with serving_master(directory) as master:
        known.epochs.begin(1, 0)
        fill(master, 3)
        return master.store.log_end


async def test_a_slave_that_is_held_takes_nothing_any_more(tmp_path: Path) -> None:
    mine, theirs = shared(tmp_path / "master"), shared(tmp_path / "slave")
    mine.epochs.begin(1, 0)
    async with (
        serving_master(tmp_path / "master", secret=mine) as master,
        running_slave(tmp_path / "slave", master.address, secret=theirs) as slave,
    ):
        await eventually(lambda: slave.link.master)
        slave.link.hold()
        fill(master, 5)
        await eventually(lambda: slave.link.master is None)
        assert slave.store.log_end == 0
        slave.link.resume()
        await eventually(lambda: slave.store.log_end == master.store.log_end)
