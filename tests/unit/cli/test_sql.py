"""`roquet sql`."""

import json
import os
import sys
import sysconfig
from pathlib import Path
from signal import SIGINT
from subprocess import DEVNULL, PIPE, Popen, run

import pytest

from roquet.cli import sql
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.metadata import LakeSettings
from tests.support.command_line import Finished, roquet
from tests.support.drafts import draft
from tests.support.eventually import wait_until
from tests.support.lake_rows import message_batch, staged_rows
from tests.support.ports import free_port
from tests.support.stores import opened
from tests.unit.cli.conftest import Shop


def test_a_statement_over_topics_prints_a_table(shop: Shop) -> None:
    statement = "select brokerName, count(*) as messages from orders group by all order by 1"
    found = roquet("sql", statement, "-n", shop.name_server)
    assert found == Finished(
        0,
        "brokerName  messages\n----------  --------\nbroker-a           3\nbroker-b           2\n",
        "",
    )


def test_a_name_server_that_does_not_listen_is_asked_once() -> None:
    """It used to be retried for a minute."""
    address = f"127.0.0.1:{free_port()}"
    found = roquet("sql", "select 1 from orders", "-n", address)
    assert found.exit_code == 1
    (line,) = found.stderr.splitlines()
    assert line.startswith(f"roquet sql: no name server answered at {address} (-n): ")
    assert line.endswith("start one with roquet up, or set the address with -n HOST:PORT")


def test_rows_are_printed_as_csv_or_json(tmp_path: Path) -> None:
    statement = "select body, tags, {'a': [queueId]} as more from orders order by queueOffset"
    with opened(tmp_path) as store:
        store.append(draft(b"\xffx", topic="orders"))
        store.append(draft(b"1", topic="orders"))
        lines = roquet("sql", statement, "--store", tmp_path, "--format", "json").stdout.split("\n")
        as_csv = roquet("sql", statement, "--store", tmp_path, "--format", "csv").stdout
    assert [json.loads(line) for line in lines if line] == [
        {"body": "\\xffx", "tags": None, "more": {"a": [0]}},
        {"body": "1", "tags": None, "more": {"a": [0]}},
    ]
    assert as_csv == 'body,tags,more\n\\xffx,,"{""a"":[0]}"\n1,,"{""a"":[0]}"\n'


def test_a_long_table_is_cut_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "_TABLE_ROWS_MAX", 3)
    with Lake.open(tmp_path, LakeSettings()) as lake:
        lake.publish(staged_rows(lake, message_batch(0, range(5))))
    found = roquet("sql", "select queueOffset from orders order by 1", "--lake", tmp_path)
    assert found.stdout.split() == ["queueOffset", "-----------", "0", "1", "2"]
    assert found.stderr == "roquet sql: the first 3 rows; --format csv or json prints all\n"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        (("from orders", "--lake", "nowhere"), 1, "no lake in nowhere"),
        (("from orders", "--lake", "x", "--start", "0"), 2, "use WHERE storeTimestamp"),
        (("from orders", "--store", "nowhere"), 1, "nowhere"),
        (("from orders", "-n", "nowhere"), 1, "option 'nameServer'"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], exit_code: int, says: str) -> None:
    found = roquet("sql", *arguments)
    assert found.exit_code == exit_code
    assert says in found.stderr
    assert found.stderr.count("\n") == 1


def test_without_duckdb_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "find_spec", lambda _: None)
    assert "pip install roquet[sql]" in roquet("sql", "select 1").stderr


def test_a_query_of_a_store_loads_only_what_it_needs(tmp_path: Path) -> None:
    needless = {
        "deltalake",
        "pandas",
        "pyarrow.dataset",
        "pyspark",
        "roquet.client.admin.admin",
        "roquet.pipeline.sql.topics",
    }
    # The command ends its process.
    program = (
        "import atexit, sys\n"
        "from roquet.cli.main import main\n"
        f"atexit.register(lambda: print('loaded', {needless} & set(sys.modules)))\n"
        "main()"
    )
    statement = "select max(queueOffset), max(storeTimestamp), max(tags) from orders"
    with opened(tmp_path) as store:
        store.append(draft(b"1", topic="orders"))
        command = [sys.executable, "-c", program, "sql", statement, "--store", str(tmp_path)]
        done = run(command, stdout=PIPE, text=True, check=True)
    assert done.stdout.endswith("loaded set()\n")


@pytest.mark.full("computes on all cores for seconds")
@pytest.mark.parametrize(
    "statement",
    [
        "select count(*) from orders, range(1000000000000) where range % 7 = 3",
        "select range from orders, range(1000000000000) where range % 7 = 3",
    ],
    ids=["while it computes", "while it prints"],
)
def test_ctrl_c_ends_a_long_statement(shop: Shop, statement: str) -> None:
    program = str(Path(sysconfig.get_path("scripts")) / "roquet")
    words = [program, "sql", statement, "-n", shop.name_server, "--format", "csv"]
    with Popen(words, stdout=DEVNULL, stderr=PIPE, text=True) as process:
        try:
            # A start takes a second of it.
            wait_until(lambda: cpu_s(process.pid) > 4, 120)
            process.send_signal(SIGINT)
            _, printed = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "Traceback" not in printed


def cpu_s(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
