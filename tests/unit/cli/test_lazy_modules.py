"""Modules that are loaded when they are used first, each in a Python of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

LAZY = "from roquet.cli.lazy_modules import load_lazily; import sys; load_lazily({names!r})\n"


def output_of(tmp_path: Path, program: str, name: str = "slow") -> str:
    """Of a program that imports modules of `tmp_path`, one of them lazily."""
    words = [sys.executable, "-c", LAZY.format(names=name) + program]
    done = subprocess.run(
        words, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    (tmp_path / "slow.py").write_text("print('loaded')\nvalue = 7\ndef own(): return value\n")
    return tmp_path


def test_it_is_loaded_by_the_first_use(slow: Path) -> None:
    program = "import slow\nimport slow\nprint('imported')\nprint(slow.value, slow.own())"
    assert output_of(slow, program) == "imported\nloaded\n7 7\n"


def test_it_is_loaded_by_an_import_of_a_name(slow: Path) -> None:
    assert output_of(slow, "from slow import value\nprint(value)") == "loaded\n7\n"


def test_a_name_that_it_does_not_have_is_an_error_as_ever(slow: Path) -> None:
    program = """
import slow
for name in ("other", "other", "__path__"):
    try:
        getattr(slow, name)
    except AttributeError as error:
        print(error)
"""
    missing = "module 'slow' has no attribute"
    lines = ["loaded", *(f"{missing} '{name}'" for name in ("other", "other", "__path__"))]
    assert output_of(slow, program).splitlines() == lines


def test_threads_wait_until_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(0.2)\nvalue = 7\n")
    program = """
import slow
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    print(sorted(pool.map(lambda _: slow.value, range(8))))
"""
    assert output_of(tmp_path, program) == f"{[7] * 8}\n"


def test_a_failure_is_reported_each_time(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("raise OSError('too many open files')\n")
    program = """
import slow
for _ in range(2):
    try:
        slow.value
    except OSError as error:
        print(error)
"""
    assert output_of(tmp_path, program) == "too many open files\n" * 2


def test_a_package_is_found_and_its_attribute_is_the_module(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("from . import slow\n")
    (tmp_path / "pack" / "slow.py").write_text("print('loaded')\nvalue = 7\n")
    program = "import pack\nprint('imported')\nprint(pack.slow.value)"
    assert output_of(tmp_path, program, "pack.slow") == "imported\nloaded\n7\n"


def test_a_module_that_is_not_there_is_missing_as_ever(tmp_path: Path) -> None:
    program = """
try:
    import slow
except ModuleNotFoundError as error:
    print(error)
"""
    assert output_of(tmp_path, program) == "No module named 'slow'\n"


def test_a_plain_server_never_loads_tls(tmp_path: Path) -> None:
    """Asyncio imports it for everyone."""
    program = """
load_lazily("asyncio.sslproto")
import asyncio, socket
from roquet.net.loop import run_server

async def connect():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        _, writer = await asyncio.open_connection(*listening.getsockname())
        writer.close()
        await writer.wait_closed()

run_server(connect())
print("_ssl" in sys.modules)
import ssl
ssl.create_default_context()
print("_ssl" in sys.modules)
"""
    assert output_of(tmp_path, program, "ssl") == "False\nTrue\n"
