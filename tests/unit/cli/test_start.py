"""What commands load before they do anything: servers start in a blink and need little memory.

Time and memory are measured in `bench/`; here it is only asked which modules are there. One that
comes back costs megabytes in every process, and nobody would notice.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# What a server does not need unless somebody asks for it, and what it never needs.
HEAVY = (
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
    "roquet.observing",
    "roquet.protocol.catalog",
    "roquet.protocol.sql_filter",
    "unittest",
    "zstandard",
)

# Nor these: some milliseconds and a megabyte together. `up` has a directory that ends with it.
LATE = ("ctypes", "hashlib", "hmac", "secrets", "tempfile")

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
from roquet.net.own_addresses import ip_of
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


@pytest.mark.parametrize("command", ["broker", "namesrv", "up"])
def test_a_server_loads_nothing_heavy(command: str) -> None:
    loaded = loaded_by(HELP.format(arguments=[command, "--help"]))
    assert f"roquet.cli.serving.{command}_process" in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("command", ["broker", "namesrv"])
def test_a_server_loads_what_signs_and_forks_when_it_is_asked_to(command: str) -> None:
    assert loaded_by(HELP.format(arguments=[command, "--help"])).isdisjoint(LATE)


def test_a_name_server_loads_nothing_of_a_broker() -> None:
    loaded = loaded_by(HELP.format(arguments=["namesrv", "--help"]))
    assert loaded.isdisjoint({"roquet.broker", "roquet.store"})


def test_help_loads_no_command() -> None:
    loaded = loaded_by(HELP.format(arguments=["--help"]))
    assert [name for name in loaded if name.startswith("roquet.cli.")] == ["roquet.cli.main"]
    assert loaded.isdisjoint({"asyncio", "msgspec", *HEAVY})


def test_messages_with_keys_are_stored_and_found_without_numpy() -> None:
    assert "numpy" not in loaded_by(STORE_WITH_KEYS)


def test_addresses_are_looked_up_without_tables_for_names_of_all_scripts() -> None:
    assert loaded_by(ADDRESSES).isdisjoint({"encodings.idna", "stringprep", "unicodedata"})
