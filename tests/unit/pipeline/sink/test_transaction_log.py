"""What is decided about a batch is decided once, and brokers are answered from it."""

import os
import time
from pathlib import Path

import pytest

from roquet.client.hooks import TransactionState
from roquet.client.producer.receipt import SendReceipt
from roquet.client.producer.transaction_producer import PreparedMessage
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.sink.transactions import (
    BATCHES_KEPT,
    ENDING_S,
    KEPT_S,
    Decision,
    Mark,
    TransactionLog,
    outcome,
    parse_mark,
)

COMMIT, ROLLBACK, UNKNOWN = (
    TransactionState.COMMIT,
    TransactionState.ROLLBACK,
    TransactionState.UNKNOWN,
)
WRITE = "a write / with % signs"
PREPARED = PreparedMessage("group", SendReceipt("ID", QueueRef("orders", "a", 1), 5, "OFFSET"))
OURS = Decision(frozenset({"one", "two"}), (PREPARED,))


@pytest.fixture
def log(tmp_path: Path) -> TransactionLog:
    return TransactionLog(str(tmp_path / "log"))


@pytest.mark.parametrize(
    ("token", "decision", "is_aborted", "expected"),
    [
        ("one", None, False, UNKNOWN),
        ("one", None, True, ROLLBACK),
        ("one", OURS, False, COMMIT),
        ("one", OURS, True, COMMIT),
        ("three", OURS, False, ROLLBACK),
    ],
)
def test_messages_of_the_attempts_that_count_are_committed(
    token: str, decision: Decision | None, is_aborted: bool, expected: TransactionState
) -> None:
    assert outcome(token, decision, is_aborted=is_aborted) is expected


def test_a_mark_is_read_back() -> None:
    mark = Mark(WRITE, 12, "run", "token")
    assert parse_mark(str(mark)) == mark
    assert parse_mark("") is None
    assert parse_mark("a/b/c/d") is None


def test_the_first_decision_holds(log: TransactionLog) -> None:
    assert log.decision(WRITE, 3) is None
    assert log.decide(WRITE, 3, OURS) is None
    assert log.decide(WRITE, 3, Decision(frozenset({"late"}))) == Decision(OURS.tokens, [PREPARED])
    assert log.decision(WRITE, 4) is None


def test_what_is_delivered_need_not_be_delivered_again(log: TransactionLog) -> None:
    log.decide(WRITE, 3, OURS)
    log.note_delivered(WRITE, 3, OURS)
    assert log.decision(WRITE, 3) == Decision(OURS.tokens, [])


def test_brokers_are_answered_from_the_files(log: TransactionLog) -> None:
    mark = Mark(WRITE, 3, "run", "one")
    assert log.outcome_of(mark) is UNKNOWN
    log.abort(WRITE, 3, "run")
    assert log.outcome_of(mark) is ROLLBACK
    assert log.outcome_of(mark._replace(run_id="next run")) is UNKNOWN
    log.decide(WRITE, 3, OURS)
    assert log.outcome_of(mark._replace(run_id="next run")) is COMMIT


def test_nothing_is_left_beside_the_files(log: TransactionLog, tmp_path: Path) -> None:
    for _ in range(2):
        log.decide(WRITE, 3, OURS)
    log.note_delivered(WRITE, 3, OURS)
    log.abort(WRITE, 4, "run")
    names = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert names == ["3.json", "4.run.aborted"]


def test_what_no_broker_asks_for_and_spark_cannot_repeat_is_removed(
    log: TransactionLog, tmp_path: Path
) -> None:
    for batch_id in range(4):
        log.decide("stream", batch_id, Decision(frozenset({"one"})))
    log.decide("stream", 4, OURS)
    log.abort("stream", 0, "run")
    [directory] = (tmp_path / "log").iterdir()
    (directory / ".left-behind.tmp").touch()
    for path in directory.iterdir():
        if path.name != "1.json":
            long_ago_s = time.time() - KEPT_S - 60
            os.utime(path, (long_ago_s, long_ago_s))
    log.prune("stream", BATCHES_KEPT)
    # Batch 0 alone is far enough back.
    assert sorted(path.name for path in directory.iterdir()) == [
        *("1.json", "2.json", "3.json", "4.json")
    ]
    log.prune("stream", BATCHES_KEPT + 50)
    assert len(list(directory.iterdir())) == 4
    log.prune("stream", BATCHES_KEPT + 100)
    # One is young, the other has messages that may have to be delivered.
    assert sorted(path.name for path in directory.iterdir()) == ["1.json", "4.json"]


def test_a_driver_that_has_decided_tells_brokers_for_a_while(
    log: TransactionLog, tmp_path: Path
) -> None:
    mark = Mark(WRITE, 3, "run", "one")
    assert not log.is_being_ended(mark)
    log.decide(WRITE, 3, OURS)
    assert log.is_being_ended(mark)
    (file,) = (tmp_path / "log").glob("*/3.json")
    long_ago_s = time.time() - ENDING_S - 1
    os.utime(file, (long_ago_s, long_ago_s))
    assert not log.is_being_ended(mark)
