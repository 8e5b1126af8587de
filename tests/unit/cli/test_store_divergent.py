"""`roquet store divergent`, with a cluster that takes what is sent again."""

import json
from pathlib import Path
from typing import Any

import pytest

from roquet.disk import SystemDisk
from roquet.protocol.names import HALF_TOPIC
from roquet.store.divergent import DivergentFile, ResentNotes
from roquet.testing.blocking import BlockingCluster
from tests.support.command_line import Finished, roquet
from tests.support.ports import free_port
from tests.support.records import PLAIN_DRAFT, changed, record_of
from tests.support.stores import opened

MESSAGE = record_of(PLAIN_DRAFT, physical_offset=4096)
HALF = record_of(
    changed(PLAIN_DRAFT, topic=HALF_TOPIC.encode(), properties=b"REAL_TOPIC\x01orders"),
    physical_offset=8192,
)


@pytest.fixture
def file(tmp_path: Path) -> DivergentFile:
    """Of a store: a message of topic T1, and a half message."""
    with opened(tmp_path):
        pass
    path = tmp_path / "divergent" / f"{4096:020d}"
    path.parent.mkdir()
    path.write_bytes(MESSAGE + HALF)
    return DivergentFile(path, path.stat().st_size)


def divergent(file: DivergentFile, *words: str) -> Finished:
    return roquet("store", "divergent", file.path.parents[1], "--json", *words)


def rows(finished: Finished) -> list[tuple[Any, ...]]:
    found = json.loads(finished.stdout)["divergent"]
    return [(each["offset"], each["topic"], each["keys"], each["resent"]) for each in found]


def test_each_message_is_shown_with_its_fate(file: DivergentFile) -> None:
    finished = divergent(file)
    assert finished.exit_code == 0
    assert json.loads(finished.stdout)["to_resend"] == 1
    assert rows(finished) == [
        (4096, "T1", "k1", None),
        (8192, "orders", None, "half message: not sent again"),
    ]
    assert json.loads(finished.stdout)["half_messages"] == 1


def test_a_resend_is_a_dry_run_until_it_is_confirmed(
    file: DivergentFile, roquet_cluster: BlockingCluster
) -> None:
    roquet_cluster.new_topic("T1")
    words = ("--resend", "-n", roquet_cluster.name_server)
    dry = divergent(file, *words)
    assert dry.exit_code == 1
    assert "nothing was sent: 1 messages would be; confirm with --yes" in dry.stderr
    sent = divergent(file, *words, "--yes")
    assert sent.exit_code == 0
    assert "resent 1 of 1 messages" in sent.stderr
    again = divergent(file, *words, "--yes")
    assert json.loads(again.stdout)["to_resend"] == 0
    assert rows(again)[0][3]
    assert "resent" not in again.stderr
    third = divergent(file, *words, "--yes", "--again")
    assert "resent 1 of 1 messages" in third.stderr


def test_a_message_that_may_have_been_sent_is_not_sent_without_asking(file: DivergentFile) -> None:
    ResentNotes(SystemDisk(), file).begin([4096])
    finished = divergent(file, "--resend", "--yes")
    assert finished.exit_code == 0
    assert rows(finished)[0] == (4096, "T1", "k1", "unknown: interrupted")


def test_a_message_that_was_not_sent_can_be_sent_later(file: DivergentFile) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    finished = divergent(file, "--resend", "--yes", "-n", nowhere)
    assert finished.exit_code != 0
    assert finished.stderr
    assert rows(divergent(file))[0] == (4096, "T1", "k1", None)
