"""What is published holds what it needs, says what it was made from, and works alone."""

import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from roquet import __version__
from scripts.packages import smoke
from scripts.packages.building import built_archive, commit, copied_sources
from tests.support.newcomer_home import PATIENCE_S, ROOT, Home

pytestmark = pytest.mark.xdist_group("newcomer")

SIZE_MAX_MB = 110
PIP_INSTALL = (sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps")
WHEELS = [f"cp3{minor}-manylinux_x86_64" for minor in (11, 12, 13)]


def test_a_wheel_works_in_an_empty_environment_and_says_its_commit(home: Home) -> None:
    finished = home.run(f"python -I {smoke.__file__}")
    assert finished.exit_code == 0, finished.stderr
    assert finished.stdout.splitlines() == [
        f"roquet {__version__} (commit {commit()})",
        "a message was sent, stored and received",
    ]


def test_an_installation_is_small(home: Home) -> None:
    assert int(home.run("du -sm .venv | cut -f1").stdout) <= SIZE_MAX_MB


def test_a_small_installation_repairs_a_store(home: Home, tmp_path: Path) -> None:
    with home.running(f"roquet up --dir {tmp_path} --name-server-port 0 --broker-port 0") as up:
        up.wait_for("ready ")
        assert up.stop() == 0
    finished = home.run(f"roquet store repair {tmp_path}")
    assert (finished.exit_code, finished.stderr) == (0, "")
    assert finished.stdout.startswith("queues and index rebuilt from ")


def test_without_a_compiler_pip_ends_at_once_and_says_what_to_install(tmp_path: Path) -> None:
    source = copied_sources(tmp_path, with_compiled=False)
    begin_s = time.monotonic()
    done = subprocess.run(
        [*PIP_INSTALL, "--target", str(tmp_path / "target"), str(source)],
        env={**os.environ, "CC": "/nowhere/cc"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "roquet is compiled from C: install a C compiler and the headers of Py" in done.stderr
    # What is reported before it is pip's own.
    assert "Traceback" not in done.stderr
    assert time.monotonic() - begin_s < PATIENCE_S


def test_the_archive_has_every_source_and_the_commit(tmp_path: Path) -> None:
    source = copied_sources(tmp_path, with_compiled=False)
    archive = built_archive(source, tmp_path)
    root = f"roquet-{__version__}"
    with tarfile.open(archive) as packed:
        names = {name.removeprefix(f"{root}/") for name in packed.getnames()}
        written = packed.extractfile(f"{root}/src/roquet/built_from.txt")
        assert written is not None
        assert written.read().decode().strip() == commit()
    sources = {str(path.relative_to(source)) for path in (source / "src").rglob("*.*")}
    needed = {name for name in sources if ".egg-info" not in name and not name.endswith(".c")}
    assert needed
    assert needed <= names
    assert {"LICENSE", "README.md", "pyproject.toml", "setup.py"} <= names


def test_cibuildwheel_reads_its_settings() -> None:
    """It builds in Docker, which is not here; what it would build can be asked."""
    done = subprocess.run(
        [sys.executable, "-m", "cibuildwheel", "--print-build-identifiers", "--platform", "linux"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "CIBW_ARCHS": "x86_64"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == WHEELS
