"""What is published holds what it needs, says what it was made from, and works alone."""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from roquet import __version__
from scripts.packages import smoke
from scripts.packages.building import built_archive, commit, copied_sources
from tests.support.newcomer_home import ROOT, Home

pytestmark = pytest.mark.xdist_group("newcomer")

WHEELS = [f"cp3{minor}-manylinux_x86_64" for minor in (11, 12, 13)]


def test_a_wheel_works_in_an_empty_environment_and_says_its_commit(home: Home) -> None:
    finished = home.run(f"python -I {smoke.__file__}")
    assert finished.exit_code == 0, finished.stderr
    assert finished.stdout.splitlines() == [
        f"roquet {__version__} (commit {commit()})",
        "a message was sent, stored and received",
    ]


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
