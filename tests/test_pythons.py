"""Which Python an environment is made with, and which ones the inner loop is run with."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.pythons import Interpreter, chosen, installed, newest_of_each, supported

SCRIPT = Path(__file__).parents[1] / "scripts" / "make_venv.sh"
# The interpreter of this environment, not the environment's link to it.
BASE = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
THIS = f"Python {platform.python_version()} ({BASE})"


@pytest.fixture(scope="module")
def made_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of this Python; with pip it would take ten seconds."""
    venv = tmp_path_factory.mktemp("made") / "venv"
    subprocess.run([BASE, "-m", "venv", "--without-pip", str(venv)], check=True)
    (venv / "bin" / "pip").touch(mode=0o755)
    return venv


@pytest.fixture
def venv(made_venv: Path, tmp_path: Path) -> Path:
    """One that a test may change."""
    return shutil.copytree(made_venv, tmp_path / "venv", symlinks=True)


def make_venv(venv: Path, goal: str, **variables: str) -> list[str]:
    """The lines it prints. There is nothing to install where it runs, so it ends there."""
    done = subprocess.run(
        [str(SCRIPT), goal],
        cwd=venv.parent,
        env={**os.environ, "VENV": str(venv), "PYTHON": "", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def pretend_older(venv: Path) -> str:
    """Have it look as if it had been made with a Python that this machine does not have."""
    other = "Python 3.11.0 (/old/python3.11)"
    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").write_text(f"#!/bin/sh\necho '{other}'\n")
    (venv / "bin" / "python").chmod(0o755)
    return other


def test_the_first_line_is_the_python_that_is_taken(venv: Path) -> None:
    assert make_venv(venv, "dev", PYTHON=sys.executable)[0] == THIS


def test_an_environment_keeps_its_python(venv: Path) -> None:
    first, second, *_ = make_venv(venv, "dev", PATH="/usr/bin:/bin")
    assert (first, second) == (THIS, f"1 of 2: a virtual environment in {venv}")


def test_an_environment_of_another_python_is_made_again_and_that_is_printed(venv: Path) -> None:
    other = pretend_older(venv)
    (venv / "left_over").touch()
    # To have pip in it takes ten seconds.
    quick = venv.parent / "python"
    quick.write_text(
        f'#!/bin/sh\n[ "$2" != venv ] || set -- -m venv --without-pip "$3"\nexec {BASE} "$@"'
    )
    quick.chmod(0o755)
    lines = make_venv(venv, "dev", PYTHON=str(quick))
    assert lines[:2] == [THIS, f"{venv} was made with {other}: it is made again"]
    assert not (venv / "left_over").exists()


def test_a_directory_that_is_no_environment_is_left_alone(tmp_path: Path) -> None:
    directory = tmp_path / "usr"
    (directory / "bin").mkdir(parents=True)
    pretend = directory / "bin" / "python"
    pretend.write_text("#!/bin/sh\necho 'Python 3.11.0 (/old/python3.11)'\n")
    pretend.chmod(0o755)
    assert make_venv(directory, "is-other", PYTHON=sys.executable) == []


def test_another_python_is_noticed(venv: Path) -> None:
    assert make_venv(venv, "is-other", PYTHON=sys.executable) == []
    pretend_older(venv)
    assert make_venv(venv, "is-other", PYTHON=sys.executable) == ["yes"]
    # Without a wish it may stay.
    assert make_venv(venv, "is-other") == []


def test_a_python_that_is_too_old_is_refused(venv: Path, tmp_path: Path) -> None:
    old = tmp_path / "python3.10"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    assert make_venv(venv, "dev", PYTHON=str(old)) == []
    assert (venv / "pyvenv.cfg").exists()


def test_this_python_is_found_and_supported() -> None:
    assert sys.version_info[:2] in supported()
    # Each one is started: those after it do not matter.
    assert any(each.version == sys.version_info[:3] for each in installed())


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ([], []),
        ([(3, 10, 9), (3, 14, 0)], []),
        ([(3, 12, 1)], [(3, 12, 1)]),
        ([(3, 12, 1), (3, 12, 1)], [(3, 12, 1)]),
        ([(3, 13, 0), (3, 11, 7), (3, 11, 2), (3, 12, 1)], [(3, 11, 2), (3, 13, 0)]),
        ([(3, 11, 10), (3, 11, 9), (3, 14, 0)], [(3, 11, 9), (3, 11, 10)]),
    ],
)
def test_the_oldest_and_the_newest_supported_ones_are_chosen(
    versions: list[tuple[int, ...]], expected: list[tuple[int, ...]]
) -> None:
    found = [Interpreter(each, "python") for each in versions]
    picked = chosen(found, {(3, 11), (3, 12), (3, 13)})
    assert [each.version for each in picked] == expected


def test_a_wheel_is_built_with_the_newest_patch_release_of_each_version() -> None:
    versions = [(3, 10, 9), (3, 11, 10), (3, 11, 9), (3, 13, 0)]
    found = newest_of_each(
        [Interpreter(each, "python") for each in versions], {(3, 11), (3, 12), (3, 13)}
    )
    assert [each.version for each in found.values()] == [(3, 11, 10), (3, 13, 0)]
