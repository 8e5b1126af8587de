"""An archive for executors has what they need, and is there whole or not at all."""

import json
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest

from roquet.pipeline.jobs.package import LIBRARIES, CannotPackage, Package, package

ROOT = Path(__file__).parents[4]
# Only the command line uses the one, and only servers make certificates with the other.
NOT_FOR_EXECUTORS = {"rich", "cryptography", "pyyaml", "shtab"}
BIG = ("numpy", "pyarrow", "uvloop")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """Without most of its bytes, which take most of the time."""
    return package(tmp_path_factory.mktemp("package") / "site.zip", BIG)


def test_everything_that_roquet_depends_on_is_in_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = project["dependencies"] + project["optional-dependencies"]["spark"]
    names = {each.partition(">=")[0] for each in needed}
    assert set(LIBRARIES) == names - NOT_FOR_EXECUTORS - {"pyspark"}


@pytest.mark.slow
def test_a_python_that_has_nothing_imports_from_it(made: Package, tmp_path: Path) -> None:
    with ZipFile(made.path) as archive:
        archive.extractall(tmp_path)
    # A compiled module of ours, one of a library, and where Spark would look for a format.
    program = (
        "import sys, pyspark_rocketmq, roquet.protocol.messages.record as m, msgspec._core as c\n"
        "print(m.__file__, c.__file__)"
    )
    paths = subprocess.run(
        # Neither site packages nor what the environment says.
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=True,
        text=True,
    ).stdout.split()
    assert len(paths) == 2
    assert all(Path(path).is_relative_to(tmp_path) for path in paths)


@pytest.mark.slow
def test_modules_are_not_compiled_again_wherever_they_are_unpacked(
    made: Package, tmp_path: Path
) -> None:
    with ZipFile(made.path) as archive:
        archive.extractall(tmp_path)
    bytecode = tmp_path / "roquet" / "__pycache__" / f"clock.{sys.implementation.cache_tag}.pyc"
    before = bytecode.read_bytes()
    subprocess.run(
        [sys.executable, "-S", "-c", "import roquet.clock"],
        env={"PYTHONPATH": str(tmp_path)},
        check=True,
    )
    assert bytecode.read_bytes() == before


@pytest.mark.slow
def test_it_says_what_is_in_it(made: Package) -> None:
    with ZipFile(made.path) as archive:
        names = archive.namelist()
        versions = json.loads(archive.read("roquet-package.json"))
        assert sum(each.file_size for each in archive.infolist()) >= made.unpacked_bytes
    assert versions == {
        name: version(name) for name in ("roquet", "backports.zstd", "lz4", "msgspec")
    }
    assert versions == {"roquet": version("roquet")} | made.libraries
    assert made.path.stat().st_size == made.bytes
    assert not [
        name for name in names if name.endswith((".pyx", ".c", ".pyi")) or "/tests/" in name
    ]


@pytest.mark.parametrize(
    ("name", "without", "says"),
    [
        ("site.tar", (), "end in .zip"),
        ("nowhere/site.zip", (), "no directory .*nowhere"),
        ("site.zip", ("pandas",), "pandas; the archive has .*lz4, msgspec"),
    ],
)
def test_what_cannot_be_is_reported(
    tmp_path: Path, name: str, without: tuple[str, ...], says: str
) -> None:
    with pytest.raises(CannotPackage, match=says):
        package(tmp_path / name, without)
    assert list(tmp_path.iterdir()) == []
