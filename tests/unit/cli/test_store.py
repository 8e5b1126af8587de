import base64
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from roquet.protocol.compression import Compression, compress
from roquet.store.message_store import MessageStore
from tests.support.command_line import Finished, roquet
from tests.support.drafts import draft
from tests.support.fake_clock import START_MS, FakeClock
from tests.support.golden_stores import STORES_DIR, unpack_store
from tests.support.records import changed
from tests.support.stores import opened

READ_BY_JAVA = ("v49_clean", "v49_crashed", "v55_clean", "v55_crashed")
COUNT = 40
COMPRESSED = 1
MAIN = (sys.executable, "-c", "from roquet.cli.main import main; main()", "store")


def run(*args: str | Path | int) -> Finished:
    return roquet("store", *args)


def run_process(output: BinaryIO, *args: str | Path) -> tuple[int, bytes]:
    """Exit code and standard error. Output waits in buffers, as it does for operators."""
    finished = subprocess.run(
        [*MAIN, *map(str, args)],
        stdout=output,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": ""},
        timeout=60,
        check=False,
    )
    return finished.returncode, finished.stderr


def objects(result: Finished) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return [json.loads(line) for line in result.stdout.splitlines()]


def expected_lines(store: str, kind: str) -> list[dict[str, Any]]:
    """What a Java client read, without what came after the directory was copied."""
    lines = map(json.loads, (STORES_DIR / f"{store}.expected.jsonl").read_text().splitlines())
    return [line for line in lines if line["kind"] == kind and not line.get("afterRestart")]


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(params=READ_BY_JAVA)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpack_store(str(request.param), tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two topics with two queues each, one message a second."""
    clock = FakeClock()
    with opened(tmp_path / "store", clock=clock) as store:
        for number in range(COUNT):
            send(store, number)
            clock.advance(1)
    return tmp_path / "store"


def send(store: MessageStore, number: int) -> None:
    store.append(
        draft(
            b"%d" % number,
            topic="Even" if number % 2 == 0 else "Odd",
            queue_id=number // 2 % 2,
            properties={"KEYS": f"all key-{number}", "UNIQ_KEY": f"ID{number}"},
        )
    )


def dumped(*args: str | Path | int) -> list[int]:
    """The numbers in the bodies of what is dumped."""
    return [int(base64.b64decode(line["body"])) for line in objects(run("dump", *args))]


# --- dump ---


def test_a_dump_is_what_a_java_client_reads(golden: Path) -> None:
    found = objects(run("dump", golden))
    expected = expected_lines(golden.name, "message")
    assert len(expected) > 190
    for line in expected:
        del line["kind"]
        # The client adds these, and 5.5.0 takes away that the body was compressed.
        del line["properties"]["MIN_OFFSET"], line["properties"]["MAX_OFFSET"]
        if golden.name.startswith("v55") and line["sysFlag"] & 0x700:
            line["sysFlag"] |= COMPRESSED
    # This one has no topic, so 4.9.7 does not let clients pull it.
    pulled = {line["topic"] for line in expected}
    assert {line["topic"] for line in found} - pulled <= {"RMQ_SYS_TRANS_OP_HALF_TOPIC"}
    assert [line for line in found if line["topic"] in pulled] == expected


def test_a_dump_has_the_messages_that_cannot_be_pulled(golden: Path) -> None:
    found = {line["offsetMsgId"]: line for line in objects(run("dump", golden))}
    viewed = expected_lines(golden.name, "view")
    assert viewed
    for line in viewed:
        del line["kind"]
        assert found[line["offsetMsgId"]] == line


def test_a_dump_by_key_is_what_a_java_client_finds(golden: Path) -> None:
    later = {
        line["offsetMsgId"]
        for line in map(
            json.loads, (STORES_DIR / f"{golden.name}.expected.jsonl").read_text().splitlines()
        )
        if line.get("afterRestart")
    }
    expected = expected_lines(golden.name, "key")
    assert len(expected) > 50
    for line in expected[::5]:
        found = objects(run("dump", golden, "--topic", line["topic"], "--key", line["key"]))
        # After a crash 4.9.7 finds some twice.
        assert [each["offsetMsgId"] for each in found] == sorted(set(line["offsetMsgIds"]) - later)


def test_without_options_everything_is_dumped_queue_by_queue(root: Path) -> None:
    assert dumped(root) == [
        *range(0, COUNT, 4),
        *range(2, COUNT, 4),
        *range(1, COUNT, 4),
        *range(3, COUNT, 4),
    ]


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        (("--topic", "Even"), [*range(0, COUNT, 4), *range(2, COUNT, 4)]),
        (("--topic", "Even", "--queue", 1), [*range(2, COUNT, 4)]),
        (("--topic", "Even", "--queue", 1, "--offset", 8), [34, 38]),
        (("--topic", "Even", "--queue", 1, "--offset", 10), []),
        (("--topic", "Odd", "--offset", 9), [37, 39]),
        (("--topic", "Odd", "--queue", 0, "--offset", 2, "--count", 3), [9, 13, 17]),
        (("--count", 1), [0]),
        (("--count", 0), []),
        (("--topic", "None"), []),
        (("--topic", "Even", "--queue", 7), []),
        (("--key", "key-7"), [7]),
        (("--key", "ID12"), [12]),
        (("--key", "all", "--topic", "Odd", "--queue", 1, "--count", 2), [3, 7]),
        (("--key", "key-7", "--topic", "Even"), []),
        (("--from-time", START_MS + 37_000), [38, 37, 39]),
        (("--from-time", START_MS + 36_001, "--to-time", START_MS + 38_000), [37]),
        (("--to-time", START_MS + 2_000), [0, 1]),
        (("--key", "all", "--to-time", START_MS + 3_000), [0, 2, 1]),
        (("--key", "all", "--from-time", START_MS + 38_500), [39]),
    ],
)
def test_a_dump_can_be_limited(
    root: Path, options: tuple[str | int, ...], numbers: list[int]
) -> None:
    assert dumped(root, *options) == numbers


def test_times_can_be_written_for_people(root: Path) -> None:
    moment = datetime.fromtimestamp(START_MS / 1000 + 38, UTC)
    with_zone = moment.isoformat()
    local = moment.astimezone().replace(tzinfo=None).isoformat(sep=" ")
    for text in (with_zone, local):
        assert dumped(root, "--from-time", text) == [38, 39]


def test_messages_that_a_clock_put_elsewhere_are_left_out(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(tmp_path, clock=clock) as store:
        for second in (0, 10, 20, 30, 5, 40):
            clock.advance(START_MS / 1000 + second - clock.now_ms() / 1000)
            store.append(draft(b"%d" % second))
    assert dumped(tmp_path, "--from-time", START_MS + 15_000) == [20, 30, 40]


def test_bodies_are_decompressed(tmp_path: Path) -> None:
    body = b"long " * 1000
    with opened(tmp_path) as store:
        for kind in Compression:
            store.append(draft(compress(body, kind), sys_flag=kind.sys_flag))
    lines = objects(run("dump", tmp_path))
    assert [base64.b64decode(line["body"]) for line in lines] == [body] * 3
    assert [line["sysFlag"] for line in lines] == [kind.sys_flag for kind in Compression]


def test_a_body_that_cannot_be_decompressed_is_left_out_and_named(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(draft(b"fine"))
        offset = store.append(draft(b"nonsense", sys_flag=COMPRESSED)).physical_offset
        store.append(draft(b"fine"))
    result = run("dump", tmp_path)
    assert result.exit_code == 1
    assert [json.loads(line)["body"] for line in result.stdout.splitlines()] == [
        "ZmluZQ==",
        None,
        "ZmluZQ==",
    ]
    assert f"record at {offset}: body cannot be decompressed" in result.stderr


def test_a_damaged_record_is_left_out_and_named(root: Path) -> None:
    lines = objects(run("dump", root))
    victim = lines[3]
    flip(root / "commitlog" / f"{0:020d}", victim["commitLogOffset"] + 88)
    result = run("dump", root)
    assert result.exit_code == 1
    assert list(map(json.loads, result.stdout.splitlines())) == [*lines[:3], *lines[4:]]
    (problem,) = result.stderr.splitlines()
    assert problem.startswith(f"roquet store dump: record at {victim['commitLogOffset']}: ")


def test_a_queue_that_ends_too_early_is_named(root: Path) -> None:
    flip(root / "consumequeue" / "Odd" / "1" / f"{0:020d}", 3 * 20)
    result = run("dump", root, "--topic", "Odd")
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) < COUNT // 2
    assert "queue 1 of Odd is damaged" in result.stderr
    assert run("dump", root, "--topic", "Odd", "--queue", 0).stderr == ""


def test_a_store_in_use_is_dumped(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for number in range(COUNT):
            send(store, number)
        assert len(dumped(tmp_path)) == COUNT


def test_texts_that_are_no_utf_8_are_shown_with_replacements(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(changed(draft(b"x"), properties=b"a\x01\xff"))
    (line,) = objects(run("dump", tmp_path))
    assert line["properties"]["a"] == "\ufffd"


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_problem(root: Path) -> None:
    for command in ("dump", "inspect", "verify"):
        reading_end, writing_end = os.pipe()
        os.close(reading_end)
        with os.fdopen(writing_end, "wb") as pipe:
            assert run_process(pipe, command, root) == (1, b"")


# --- verify ---


def test_nothing_is_wrong_with_the_stores_of_apache(golden: Path) -> None:
    result = run("verify", golden)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith(" state files: no faults\n")


@pytest.mark.parametrize(
    ("file", "position", "text"),
    [
        ("commitlog/00000000000000000000", 91, "log: bytes 0 to 193: "),
        (
            "consumequeue/Gold49CleanPlain/1/00000000000000000400",
            15,
            "queue Gold49CleanPlain/1: offsets 20 to 20: ",
        ),
        ("index/20261115201648946", 60, "index 20261115201648946: file: "),
    ],
)
def test_a_flipped_byte_is_found(tmp_path: Path, file: str, position: int, text: str) -> None:
    root = unpack_store("v49_clean", tmp_path)
    flip(root / file, position)
    result = run("verify", root)
    assert result.exit_code == 1
    fault, summary = result.stdout.splitlines()
    assert fault.startswith(text)
    assert summary.endswith(": 1 faults")


# --- repair ---


def test_a_repair_makes_what_apache_made(golden: Path) -> None:
    queues, index = contents(golden / "consumequeue"), contents(golden / "index")
    for path in (golden / "consumequeue").rglob("0" * 20):
        flip(path, 7)
    for path in (golden / "index").iterdir():
        flip(path, 300)
    assert run("verify", golden).exit_code == 1
    result = run("repair", golden)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "queues and index rebuilt" in result.stdout
    assert contents(golden / "consumequeue") == queues
    assert list(contents(golden / "index").values()) == list(index.values())
    assert run("verify", golden).exit_code == 0


def test_a_repair_names_what_it_cannot_repair(root: Path) -> None:
    flip(root / "commitlog" / f"{0:020d}", 90)
    result = run("repair", root)
    assert result.exit_code == 0
    assert result.stdout == f"queues and index rebuilt from {COUNT - 1} records\n"
    assert result.stderr.startswith("roquet store repair: log: bytes 0 to ")


def test_a_store_in_use_is_not_repaired(tmp_path: Path) -> None:
    with opened(tmp_path):
        result = run("repair", tmp_path)
    assert result.exit_code == 1
    assert result.stderr == (
        f"roquet store repair: {tmp_path} is in use: another process holds lock\n"
    )


# --- inspect ---


def test_an_inspection_counts_what_a_java_client_counted(golden: Path) -> None:
    (view,) = objects(run("inspect", golden, "--json"))
    found = {(each["topic"], each["queueId"]): each for each in view["queues"]}
    first_times: dict[tuple[str, int], int] = {}
    last: dict[tuple[str, int], dict[str, Any]] = {}
    for line in expected_lines(golden.name, "message"):
        place = line["topic"], line["queueId"]
        first_times.setdefault(place, line["storeTimestamp"])
        last[place] = line
    assert len(last) > 15
    for place, line in last.items():
        assert (found[place]["minOffset"], found[place]["maxOffset"]) == (
            0,
            line["queueOffset"] + 1,
        )
        assert found[place]["firstStoreTimestamp"] == first_times[place]
        assert found[place]["lastStoreTimestamp"] == line["storeTimestamp"]
    assert view["wasClosed"] == golden.name.endswith("_clean")
    assert view["brokenQueues"] == []


def test_an_inspection_lists_files(tmp_path: Path) -> None:
    root = unpack_store("v49_clean", tmp_path)
    (view,) = objects(run("inspect", root, "--json"))
    assert view["directory"] == str(root)
    assert (view["logStart"], view["logEnd"]) == (0, 67745)
    assert view["checkpoint"] == {
        "logTimestamp": 1794773827450,
        "queueTimestamp": 1794773827450,
        "indexTimestamp": 1794773809661,
    }
    assert {"name": "consumequeue", "fileCount": 32, "size": 6400} in view["parts"]
    assert {"name": "lock", "fileCount": 1, "size": 4} in view["parts"]
    assert view["logFiles"][1] == {
        "name": "00000000000000032768",
        "start": 32768,
        "end": 65536,
        "firstStoreTimestamp": 1794773809151,
    }
    assert view["indexFiles"][3] == {
        "name": "20261115201649663",
        "keyCount": 92,
        "firstPhysicalOffset": 50930,
        "lastPhysicalOffset": 67419,
        "firstStoreTimestamp": 1794773809667,
        "lastStoreTimestamp": 1794773827450,
    }


def test_an_inspection_for_people_has_a_line_for_each_queue(golden: Path) -> None:
    result = run("inspect", golden)
    assert (result.exit_code, result.stderr) == (0, "")
    (view,) = objects(run("inspect", golden, "--json"))
    rows = [line.split() for line in result.stdout.splitlines()]
    for queue in view["queues"]:
        numbers = [str(queue[name]) for name in ("queueId", "minOffset", "maxOffset")]
        (row,) = [row for row in rows if row[:4] == [queue["topic"], *numbers]]
        assert [round(datetime.fromisoformat(text).timestamp() * 1000) for text in row[4:]] == [
            queue["firstStoreTimestamp"],
            queue["lastStoreTimestamp"],
        ]


@pytest.mark.slow
def test_an_inspection_fits_the_terminal(tmp_path: Path) -> None:
    root = unpack_store("v49_clean", tmp_path)
    terminal, screen = os.openpty()
    with subprocess.Popen(
        [*MAIN, "inspect", root], stdout=screen, env=os.environ | {"COLUMNS": "100"}
    ):
        os.close(screen)
        text = b"".join(iter(lambda: read_screen(terminal), b"")).decode()
    os.close(terminal)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert max(map(len, lines)) <= 100
    assert any("Gold49CleanOrders" in line for line in lines)


def read_screen(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:
        # What Linux reports when there is no writer any more.
        return b""


def test_an_inspection_names_broken_queues(root: Path) -> None:
    flip(root / "consumequeue" / "Odd" / "1" / f"{0:020d}", 0)
    assert "queue 1 of Odd is damaged and truncated" in run("inspect", root).stdout


def test_an_empty_store_can_be_looked_at(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    assert run("inspect", tmp_path).exit_code == 0
    assert dumped(tmp_path) == []
    assert (
        run("verify", tmp_path).stdout == "0 records, 0 queues, 0 keys, 0 state files: no faults\n"
    )
    assert run("repair", tmp_path).exit_code == 0


def test_a_time_that_no_calendar_has_is_shown_as_a_number(tmp_path: Path) -> None:
    with opened(tmp_path, clock=FakeClock(2**62)) as store:
        store.append(draft())
    assert str(2**62) in run("inspect", tmp_path).stdout


def test_names_are_not_taken_for_markup(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(draft(topic="[bold]x"))
    assert "[bold]x" in run("inspect", tmp_path).stdout


# --- wrong input ---

COMMANDS = ("inspect", "verify", "dump", "repair")


def one_line(result: Finished) -> str:
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_that_is_not_there_is_reported(command: str, tmp_path: Path) -> None:
    result = run(command, tmp_path / "nowhere")
    assert result.exit_code == 1
    assert one_line(result) == (
        f"roquet store {command}: {tmp_path}/nowhere: No such file or directory"
    )
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_is_no_directory(command: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run(command, tmp_path / "file")
    assert result.exit_code == 1
    assert one_line(result) == f"roquet store {command}: {tmp_path}/file: Not a directory"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_directory_of_a_whole_cluster_means_its_only_broker(
    command: str, tmp_path: Path
) -> None:
    # As `roquet up --dir` makes it.
    (tmp_path / "namesrv").mkdir()
    with opened(tmp_path / "broker-a") as store:
        store.append(draft(b"found"))
    before = run(command, tmp_path / "broker-a")
    assert before.exit_code == 0
    assert run(command, tmp_path) == before


@pytest.fixture
def two_brokers(tmp_path: Path) -> Path:
    for number, name in enumerate(("broker-a", "broker-b"), 1):
        with opened(tmp_path / name) as store:
            for _ in range(number):
                store.append(draft(name.encode()))
    return tmp_path


def test_the_directory_of_a_whole_cluster_means_all_its_brokers(two_brokers: Path) -> None:
    directories = [each["directory"] for each in objects(run("inspect", two_brokers, "--json"))]
    assert directories == [str(two_brokers / name) for name in ("broker-a", "broker-b")]
    assert run("inspect", two_brokers).stdout.count("closed cleanly") == 2
    assert run("verify", two_brokers).stdout == (
        "broker-a: 1 records, 1 queues, 0 keys, 0 state files: no faults\n"
        "broker-b: 2 records, 1 queues, 0 keys, 0 state files: no faults\n"
    )
    assert len(objects(run("dump", two_brokers))) == 3
    assert len(objects(run("dump", two_brokers, "--count", 2))) == 2
    assert run("repair", two_brokers).stdout == (
        "broker-a: queues and index rebuilt from 1 records\n"
        "broker-b: queues and index rebuilt from 2 records\n"
    )


def test_the_fault_of_one_broker_is_reported_with_its_name(two_brokers: Path) -> None:
    flip(next((two_brokers / "broker-a" / "consumequeue" / "TopicA" / "0").iterdir()), 7)
    result = run("verify", two_brokers)
    assert result.exit_code == 1
    assert "broker-a: queue TopicA/0: offsets 0 to 0: differs from the log\n" in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_without_a_log_is_no_store(command: str, tmp_path: Path) -> None:
    result = run(command, tmp_path)
    assert result.exit_code == 1
    assert one_line(result) == f"roquet store {command}: {tmp_path}: no commitlog in this directory"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_log_that_is_none_is_reported(command: str, root: Path) -> None:
    (root / "commitlog" / "notes.txt").write_bytes(bytes(4096))
    result = run(command, root)
    assert result.exit_code == 1
    assert "commitlog/notes.txt: not the name of a file of 4096 bytes" in one_line(result)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_log_that_cannot_be_read_is_reported(command: str, root: Path) -> None:
    shutil.rmtree(root / "commitlog")
    (root / "commitlog").touch()
    result = run(command, root)
    assert result.exit_code == 1
    assert one_line(result) == f"roquet store {command}: {root}/commitlog: Not a directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_forbidden_directory_is_reported(command: str, root: Path) -> None:
    (root / "commitlog").chmod(0)
    result = run(command, root)
    (root / "commitlog").chmod(0o700)
    assert result.exit_code == 1
    assert "Permission denied" in one_line(result)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--queue", "1"), "--queue requires --topic"),
        (("--topic", "\udcff"), "is not UTF-8"),
        (("--key", "\udcff"), "is not UTF-8"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    root: Path, options: tuple[str, str], text: str
) -> None:
    result = run("dump", root, *options)
    assert result.exit_code == 2
    assert text in one_line(result)


@pytest.mark.parametrize("option", ["--from-time", "--to-time"])
def test_a_time_is_a_time(root: Path, option: str) -> None:
    result = run("dump", root, option, "20261115")
    assert result.exit_code == 2
    assert "'20261115' is not a time" in result.stderr


@pytest.mark.parametrize("option", ["--queue", "--offset", "--count"])
def test_numbers_are_not_negative(root: Path, option: str) -> None:
    assert run("dump", root, option, "-1").exit_code == 2


@pytest.mark.parametrize("words", [("dump",), ("verify",), ("dump", "--help")])
@pytest.mark.slow
def test_output_that_cannot_be_written_is_reported(root: Path, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        exit_code, complaints = run_process(full, *words, root)
    assert exit_code == 1
    assert re.fullmatch(rb"roquet.*: \[Errno 28\] No space left on device\n", complaints)
