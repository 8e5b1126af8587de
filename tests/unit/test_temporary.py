"""Temporary directories: gone at the end, and what the dead left is gone at the next start."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from roquet.temporary import remove_leftovers, temporary_directory

OWNER = """
import sys
from roquet.temporary import temporary_directory
with temporary_directory() as directory:
    (directory / "large").write_bytes(bytes(1 << 20))
    print(directory, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def owner() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().rstrip())


def end(process: subprocess.Popen[str], how: signal.Signals) -> None:
    process.send_signal(how)
    process.communicate(timeout=30)


def test_a_directory_is_its_owners_alone_and_gone_at_the_end(tmp_path: Path) -> None:
    with temporary_directory() as directory:
        assert directory.parent == tmp_path
        assert directory.stat().st_mode & 0o777 == 0o700
        (directory / "sub").mkdir()
        assert remove_leftovers() == []
    assert not directory.exists()


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_is_not() -> None:
    dead, left = owner()
    alive, used = owner()
    try:
        assert remove_leftovers() == []
        end(dead, signal.SIGKILL)
        ((path, size),) = remove_leftovers()
        assert path == left
        assert size >= 1 << 20
        assert not left.exists()
        assert (used / "large").exists()
    finally:
        end(alive, signal.SIGKILL)


def test_what_another_process_writes_during_the_removal_is_left_to_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_files(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))

    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", find_files)
        with temporary_directory() as directory:
            pass
    assert list(tmp_path.iterdir()) == [directory]
    assert [each.path for each in remove_leftovers()] == [directory]
    assert not directory.exists()


def test_directories_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "roquet-of-somebody").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / ".owner").touch()
    (tmp_path / "roquet-link").symlink_to(tmp_path / "elsewhere")
    assert remove_leftovers() == []
    assert len(list(tmp_path.iterdir())) == 3
