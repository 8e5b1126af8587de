"""Directories that real Apache brokers left, and what real Java clients read from them."""

import base64
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import read_record
from roquet.store.message_store import MessageStore
from tests.support.golden_stores import STORES_DIR, unpack_store
from tests.support.stores import messages, open_store

NAMES = ["v49_clean", "v49_crashed", "v55_clean", "v55_crashed"]
# The 5.5.0 client clears this bit of what it has decompressed; the record keeps it.
COMPRESSED = 1


def open_golden(root: Path, name: str) -> MessageStore:
    return open_store(
        root, commit_log_file_size=32768, queue_file_size=200, index_tags=name.startswith("v55")
    )


def expected(name: str, kind: str) -> list[dict[str, Any]]:
    lines = (STORES_DIR / f"{name}.expected.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["kind"] == kind]


def stored_before(name: str, kind: str) -> list[dict[str, Any]]:
    """Without what the restarted broker appended before the client read."""
    return [line for line in expected(name, kind) if not line.get("afterRestart")]


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(name: str, tmp_path: Path) -> Path:
    return unpack_store(name, tmp_path)


@pytest.fixture
def store(name: str, root: Path) -> Iterator[MessageStore]:
    store = open_golden(root, name)
    yield store
    store.close()


def as_client_sees(message: StoredMessage, store: MessageStore) -> dict[str, Any]:
    min_offset = store.min_offset(message.topic, message.queue_id)
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "msgId": message.message_id,
        "offsetMsgId": message.offset_id,
        "keys": message.properties.get("KEYS"),
        "tags": message.tags,
        "properties": message.properties | {"MIN_OFFSET": str(min_offset)},
        "body": base64.b64encode(message.decompressed_body()).decode(),
        "bornTimestamp": message.born_timestamp,
        "storeTimestamp": message.store_timestamp,
        "sysFlag": message.sys_flag,
        "flag": message.flag,
        "reconsumeTimes": message.reconsume_times,
        "bornHost": str(message.born_address),
        "storeHost": str(message.store_address),
        "commitLogOffset": message.physical_offset,
        "storeSize": message.size,
        "bodyCRC": message.body_crc,
        "preparedTransactionOffset": message.prepared_transaction_offset,
    }


def test_every_message_is_read_as_the_java_client_read_it(name: str, store: MessageStore) -> None:
    wanted: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for line in stored_before(name, "message"):
        wanted[line["topic"], line["queueId"]].append(line)
    assert sum(map(len, wanted.values())) > 190
    for (topic, queue_id), lines in wanted.items():
        found = [as_client_sees(each, store) for each in messages(store, topic, queue_id)]
        assert len(found) == len(lines)
        for mine, theirs in zip(found, lines, strict=True):
            if name.startswith("v55"):
                mine["sysFlag"] &= ~COMPRESSED
                theirs["sysFlag"] &= ~COMPRESSED
            del theirs["kind"]
            # What came later moved the end of the queue.
            theirs["properties"].pop("MAX_OFFSET")
            assert mine == theirs


def test_every_message_is_found_by_its_physical_offset(name: str, store: MessageStore) -> None:
    lines = stored_before(name, "message") + stored_before(name, "view")
    for line in lines:
        message = read_record(store.record_at(int(line["offsetMsgId"][16:], 16)))
        assert message.offset_id == line["offsetMsgId"]
        assert base64.b64encode(message.decompressed_body()).decode() == line["body"]
    assert len(lines) >= 200


def test_every_queue_has_its_bounds(name: str, store: MessageStore) -> None:
    later: dict[tuple[str, int], int] = defaultdict(int)
    for line in expected(name, "message"):
        later[line["topic"], line["queueId"]] += bool(line.get("afterRestart"))
    lines = expected(name, "queue")
    for line in lines:
        place = (line["topic"], line["queueId"])
        assert store.min_offset(*place) == line["minOffset"]
        assert store.max_offset(*place) == line["maxOffset"] - later[place]
    assert len(lines) > 15


def test_every_key_leads_to_its_messages(name: str, store: MessageStore) -> None:
    while not store.file_keys():
        pass
    later = {line["offsetMsgId"] for line in expected(name, "message") if "afterRestart" in line}
    for line in expected(name, "key"):
        records = store.query(line["topic"], line["key"], 64, 0, 2**60).records
        found = {read_record(record).offset_id for record in records}
        assert found == set(line["offsetMsgIds"]) - later
    for line in expected(name, "uniqueKey"):
        records = store.query(line["topic"], line["key"], 32, 0, 2**60).records
        found = {read_record(record).offset_id for record in records}
        assert line["offsetMsgId"] in found | later


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def test_queues_made_from_the_log_alone_are_those_of_apache(name: str, root: Path) -> None:
    originals = contents(root / "consumequeue")
    rmtree(root / "consumequeue")
    open_golden(root, name).close()
    assert contents(root / "consumequeue") == originals


def test_an_index_made_from_the_log_alone_is_that_of_apache(name: str, root: Path) -> None:
    originals = list(contents(root / "index").values())
    rmtree(root / "index")
    store = open_golden(root, name)
    while not store.file_keys():
        pass
    store.close()
    assert list(contents(root / "index").values()) == originals


def test_opening_and_closing_changes_no_message(name: str, root: Path) -> None:
    originals = contents(root / "commitlog")
    open_golden(root, name).close()
    found = contents(root / "commitlog")
    # The file that a crash left behind unused is gone.
    assert found == {key: originals[key] for key in found}
    assert not any(any(originals[key]) for key in originals.keys() - found.keys())


def test_the_log_of_a_master_opens_too(tmp_path: Path) -> None:
    root = unpack_store("ha_49_master", tmp_path)
    store = open_store(
        root,
        commit_log_file_size=32768,
        queue_file_size=1000,
        index_slot_count=100,
        index_entry_count=400,
    )
    assert store.recovery is not None
    assert store.recovery.was_clean
    assert store.recovery.damages == ()
    assert store.recovery.misfits == ()
    store.close()
