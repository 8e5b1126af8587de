"""What commands load before they do anything: servers start in a blink and need little memory.

Time and memory are measured in `bench/`; here it is only asked which modules are there. One that
comes back costs megabytes in every process, and none would notice.
"""

import os
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

ROOT = Path(__file__).parents[3]

# What a server does not need unless it is configured, and what it never needs.
HEAVY = (
    "backports",
    "cryptography",
    "dataclasses",
    "email",
    "http",
    "lz4",
    "multiprocessing",
    "numpy",
    "pyarrow",
    "pyspark",
    "rich",
    "roquet.client",
    "roquet.monitoring",
    "roquet.protocol.catalog",
    "roquet.protocol.sql_filter",
    "unittest",
)

# Nor these: some milliseconds and a megabyte together.
LATE = ("bz2", "ctypes", "hashlib", "hmac", "lzma", "secrets", "shutil", "tempfile")

# What only those load who are set up so: to know accounts, to encrypt, to follow, to step in, to
# filter by SQL, to be watched.
SET_UP = (
    "aiohttp",
    "jinja2",
    "roquet.access.account_store",
    "roquet.access.guard",
    "roquet.access.user_store",
    "roquet.broker.metrics",
    "roquet.broker.replication.failover",
    "roquet.dashboard",
    "roquet.namesrv.metrics",
    "roquet.net.tls.self_signed",
    "yaml",
)

HELP = """
from roquet.cli.main import run_command
try:
    run_command({arguments})
except SystemExit:
    pass
"""
MODULES = """
import sys
print(*sys.modules, file=sys.stderr)
"""

LOADING = """
import gc, sys
from roquet.cli.main import main

collections = []
gc.callbacks.append(lambda phase, _: collections.append(phase))
sys.argv = ["roquet", "up", "--help"]
try:
    main()
except SystemExit:
    pass
assert not collections
"""

STORE_WITH_KEYS = """
from pathlib import Path
from tempfile import TemporaryDirectory
from tests.support.drafts import draft
from tests.support.stores import opened

with TemporaryDirectory() as root:
    for key in ("one", "größe"):
        with opened(Path(root)) as store:
            store.append(draft(properties={"KEYS": key}))
            assert len(store.query("TopicA", key, 10, 0, 2**62).records) == 1
"""

ADDRESSES = """
from roquet.net.addresses import ip_of
assert ip_of("127.0.0.1") == ip_of("localhost") == "127.0.0.1"
"""


def loaded_by(program: str) -> set[str]:
    finished = subprocess.run(
        [sys.executable, "-c", program + MODULES],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(finished.stderr.split())


def loaded_by_serving(arguments: list[str], sign: str) -> set[str]:
    """What a process has loaded from its first moment to its end, once it has printed `sign`."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from roquet.cli.main import main; main()", *arguments],
        env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    loaded = set()
    hanging = Timer(60, process.kill)
    hanging.start()
    with process.stdout as lines:
        for line in lines:
            if line.startswith("import time:"):
                loaded.add(line.rpartition("|")[2].strip())
            elif sign in line:
                process.terminate()
    assert process.wait() == 0
    hanging.cancel()
    return loaded


@pytest.mark.parametrize(
    ("command", "module"),
    [
        ("broker", "roquet.broker.supervisor"),
        ("namesrv", "roquet.namesrv.server"),
        ("up", "roquet.broker.supervisor"),
    ],
)
def test_a_server_loads_nothing_heavy(command: str, module: str) -> None:
    loaded = loaded_by(HELP.format(arguments=[command, "--help"]))
    assert module in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("command", ["broker", "namesrv", "up"])
def test_a_server_loads_what_signs_and_forks_when_it_is_asked_to(command: str) -> None:
    assert loaded_by(HELP.format(arguments=[command, "--help"])).isdisjoint(LATE)


@pytest.mark.parametrize(
    ("command", "sign"), [("broker", "serves at"), ("namesrv", "listens on"), ("up", "ready ")]
)
def test_a_plain_server_that_serves_has_loaded_nothing_more(
    command: str, sign: str, tmp_path: Path
) -> None:
    config = tmp_path / "broker.conf"
    config.write_text("mapedFileSizeCommitLog=1048576\n")
    options = {
        "broker": ["-c", str(config), "--dir", str(tmp_path / "store"), "--port", "0"],
        "namesrv": ["--port", "0"],
        "up": ["--dir", str(tmp_path / "up"), "--name-server-port", "0", "--broker-port", "0"],
    }
    loaded = loaded_by_serving([command, *options[command]], sign)
    assert "roquet.net.serving" in loaded
    assert loaded.isdisjoint({*HEAVY, *LATE, *SET_UP})


@pytest.mark.parametrize(
    ("setting", "module"),
    [
        ("enablePropertyFilter=true", "roquet.protocol.sql_filter.compiler"),
        ("aclEnable=true", "hmac"),
    ],
)
def test_what_a_broker_is_set_up_for_is_loaded_before_anybody_asks(
    setting: str, module: str, tmp_path: Path
) -> None:
    accounts = tmp_path / "accounts.yml"
    accounts.write_text("accounts: [{accessKey: operator, secretKey: '12345678', admin: true}]\n")
    config = tmp_path / "broker.conf"
    config.write_text(f"mapedFileSizeCommitLog=1048576\naclFile={accounts}\n{setting}\n")
    options = ["-c", str(config), "--dir", str(tmp_path / "store"), "--port", "0"]
    loaded = loaded_by_serving(["broker", *options], "serves at")
    assert module in loaded
    assert "dataclasses" not in loaded


def test_a_name_server_loads_nothing_of_a_broker() -> None:
    loaded = loaded_by(HELP.format(arguments=["namesrv", "--help"]))
    assert loaded.isdisjoint({"roquet.broker", "roquet.store"})


def test_no_garbage_is_collected_while_a_server_is_loaded() -> None:
    assert "roquet.broker.supervisor" in loaded_by(LOADING)


def test_help_loads_no_command() -> None:
    loaded = loaded_by(HELP.format(arguments=["--help"]))
    commands = {name for name in loaded if name.startswith("roquet.cli.")}
    assert commands == {"roquet.cli.main", "roquet.cli.lazy_modules"}
    assert loaded.isdisjoint({"asyncio", "msgspec", *HEAVY})


def test_messages_with_keys_are_stored_and_found_without_numpy() -> None:
    assert "numpy" not in loaded_by(STORE_WITH_KEYS)


def test_addresses_are_looked_up_without_tables_for_names_of_all_scripts() -> None:
    assert loaded_by(ADDRESSES).isdisjoint({"encodings.idna", "stringprep", "unicodedata"})
