"""Two brokers of ours over a real link: who is let in, and what comes over it."""

import asyncio
from pathlib import Path

import pytest

from roquet.broker.replication.acknowledging import AckPolicy, AckRule
from roquet.broker.replication.epoch_file import EpochFile
from roquet.broker.replication.frames import encode_report
from roquet.broker.replication.in_sync import Replica
from roquet.broker.replication.trust import Trust
from tests.support.drafts import draft
from tests.support.eventually import eventually
from tests.support.golden_replication import log_bytes
from tests.support.quick_disk import QuickDisk
from tests.support.replicas import Master, following, raw_slave, serving_master

SECRET = b"a secret of both of them"


def trust(root: Path, secret: bytes = SECRET) -> Trust:
    return Trust(secret, EpochFile(QuickDisk(), root))


def fill(master: Master, count: int) -> None:
    for number in range(count):
        master.store.append(draft(b"%d" % number * 100))


async def test_a_slave_with_the_secret_has_log_and_epochs_of_its_master(tmp_path: Path) -> None:
    mine, theirs = trust(tmp_path / "master"), trust(tmp_path / "slave")
    mine.epochs.begin(3, 0)
    async with serving_master(tmp_path / "master", trust=mine) as master:
        fill(master, 50)
        async with following(tmp_path / "slave", master.address, trust=theirs) as slave:
            await eventually(lambda: master.copies.confirmed_end == master.store.log_end)
            assert slave.link.epoch == 3
            assert slave.link.lag_size == 0
            assert theirs.epochs.history == mine.epochs.history
            assert master.copies.slaves[0].replica == Replica(2, theirs.epochs.author)
    assert log_bytes(tmp_path / "slave") == log_bytes(tmp_path / "master")


async def test_a_slave_with_another_secret_gets_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = trust(tmp_path / "slave", b"a secret of somebody else")
    async with (
        serving_master(tmp_path / "master", trust=trust(tmp_path / "master")) as master,
        following(tmp_path / "slave", master.address, trust=stranger) as slave,
    ):
        fill(master, 5)
        await eventually(lambda: "does not know the secret" in caplog.text)
        assert slave.store.log_end == 0
        assert master.copies.slaves == []


@pytest.mark.parametrize("takes_plain_slaves", [False, True])
async def test_slaves_without_a_secret_follow_where_they_may(
    tmp_path: Path, *, takes_plain_slaves: bool
) -> None:
    mine = trust(tmp_path)
    async with (
        serving_master(tmp_path, trust=mine, takes_plain_slaves=takes_plain_slaves) as master,
        raw_slave(master.port) as (reader, writer),
    ):
        fill(master, 1)
        writer.write(encode_report(0))
        data = await asyncio.wait_for(reader.read(100), 30)
        assert bool(data) is takes_plain_slaves


async def test_a_master_that_is_outdated_is_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine, theirs = trust(tmp_path / "master"), trust(tmp_path / "slave")
    mine.epochs.begin(3, 0)
    theirs.epochs.see(4)
    async with (
        serving_master(tmp_path / "master", trust=mine) as master,
        following(tmp_path / "slave", master.address, trust=theirs) as slave,
    ):
        fill(master, 5)
        await eventually(lambda: "epoch 3 is over: there is a master of epoch 4" in caplog.text)
        assert slave.store.log_end == 0


async def test_what_the_master_never_had_is_told_to_the_slave(tmp_path: Path) -> None:
    mine, theirs = trust(tmp_path / "master"), trust(tmp_path / "slave")
    end = await old_master(tmp_path / "slave", theirs)
    mine.epochs.follow(1, theirs.epochs.history.starts)
    diverged: list[int] = []
    async with serving_master(tmp_path / "master", trust=mine) as master:
        fill(master, 1)
        common_end = master.store.log_end
        mine.epochs.begin(2, common_end)
        async with following(
            tmp_path / "slave", master.address, trust=theirs, on_diverged=diverged.append
        ) as slave:
            await eventually(lambda: diverged)
            assert diverged[0] == common_end
            assert slave.store.log_end == end


async def test_a_master_without_a_log_does_not_make_its_slaves_cut_all_of_theirs(
    tmp_path: Path,
) -> None:
    mine, theirs = trust(tmp_path / "master"), trust(tmp_path / "slave")
    end = await old_master(tmp_path / "slave", theirs)
    mine.epochs.follow(1, theirs.epochs.history.starts)
    mine.epochs.begin(2, 0)
    diverged: list[int] = []
    async with (
        serving_master(tmp_path / "master", trust=mine) as master,
        following(
            tmp_path / "slave", master.address, trust=theirs, on_diverged=diverged.append
        ) as slave,
    ):
        await eventually(lambda: slave.link.problem)
        assert "nothing is cut" in (slave.link.problem or "")
        assert (diverged, slave.store.log_end) == ([], end)


async def test_a_slave_learns_what_its_master_promises(tmp_path: Path) -> None:
    mine, theirs = trust(tmp_path / "master"), trust(tmp_path / "slave")
    mine.epochs.begin(3, 0)
    rule = AckRule(AckPolicy.QUORUM, 5)
    async with (
        serving_master(
            tmp_path / "master", trust=mine, ack_policy=rule.policy, replica_count=5
        ) as master,
        following(tmp_path / "slave", master.address, trust=theirs) as slave,
    ):
        await eventually(lambda: slave.link.master)
    assert trust(tmp_path / "slave").epochs.ack_rule == rule


async def test_a_second_store_under_one_number_is_not_let_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine, theirs = trust(tmp_path / "master"), trust(tmp_path / "slave")
    intruder = trust(tmp_path / "intruder")
    mine.epochs.begin(3, 0)
    async with (
        serving_master(tmp_path / "master", trust=mine) as master,
        following(tmp_path / "slave", master.address, trust=theirs),
    ):
        await eventually(lambda: master.copies.slaves)
        first = master.copies.slaves[0]
        async with following(tmp_path / "intruder", master.address, trust=intruder) as second:
            await eventually(lambda: second.link.problem)
            assert "brokerId=2 is in use by" in (second.link.problem or "")
        assert master.copies.slaves == [first]
    assert "refusing slave 127.0.0.1:" in caplog.text


async def old_master(directory: Path, known: Trust) -> int:
    """Three records of epoch 1, and where they end."""
    async with serving_master(directory) as master:
        known.epochs.begin(1, 0)
        fill(master, 3)
        return master.store.log_end


async def test_a_slave_that_is_held_takes_nothing_any_more(tmp_path: Path) -> None:
    mine, theirs = trust(tmp_path / "master"), trust(tmp_path / "slave")
    mine.epochs.begin(1, 0)
    async with (
        serving_master(tmp_path / "master", trust=mine) as master,
        following(tmp_path / "slave", master.address, trust=theirs) as slave,
    ):
        await eventually(lambda: slave.link.master)
        slave.link.hold()
        fill(master, 5)
        await eventually(lambda: slave.link.master is None)
        assert slave.store.log_end == 0
        slave.link.go_on()
        await eventually(lambda: slave.store.log_end == master.store.log_end)
