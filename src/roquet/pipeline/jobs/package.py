"""`package`: roquet and its libraries as an archive that Spark unpacks for executors.

Compiled modules cannot be imported from a zip, so `--py-files` cannot carry them. An archive of
`--archives` is unpacked in the working directory of an executor, and `PYTHONPATH` names it:

    site/roquet/...    site/pyarrow/...    site/numpy/...    site/roquet-package.json

Sources come with bytecode that is valid whatever the times of files, which change when an archive
is unpacked: a Python process of Spark has ten seconds to start.
"""

import importlib.util
import py_compile
import sys
import sysconfig
import tempfile
from collections.abc import Collection, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile

import msgspec

from roquet.pipeline.durable_files import put_in_place
from roquet.pipeline.errors import PipelineError

# What tasks import; libraries of the command line are for the driver alone.
LIBRARIES: Final = ("backports.zstd", "lz4", "msgspec", "numpy", "pyarrow", "uvloop")
_PACKAGES: Final = ("roquet", "pyspark_rocketmq", "pyspark_rocketmq_store")
_MANIFEST: Final = "roquet-package.json"
_SUFFIX: Final = ".zip"
# Only for compiling and testing, and more than half of the files.
_LEFT_OUT_DIRECTORIES: Final = frozenset({"__pycache__", "include", "includes", "tests"})
_LEFT_OUT_SUFFIXES: Final = frozenset({".c", ".h", ".pxd", ".pxi", ".pyi", ".pyx"})
# Most files are shared libraries: higher levels save a tenth and take four times as long.
_COMPRESSION_LEVEL: Final = 1


class CannotPackage(PipelineError):
    """The archive cannot be written; the text has the reason."""


class Package(NamedTuple):
    """An archive, for this version of Python and this platform."""

    path: Path
    bytes: int
    unpacked_bytes: int
    python: str
    platform: str
    libraries: dict[str, str]


class _PackedFile(NamedTuple):
    """A file, and its name in the archive."""

    path: Path
    name: PurePosixPath


def package(target: Path, without: Collection[str] = ()) -> Package:
    """Writes the archive whole or not at all. Raises CannotPackage.

    `without` are libraries that the Python of executors has.
    """
    if target.suffix != _SUFFIX:
        raise CannotPackage(f"{target} must end in {_SUFFIX}: Spark unpacks by the name")
    if not target.parent.is_dir():
        raise CannotPackage(f"no directory {target.parent}")
    unknown = sorted(set(without) - set(LIBRARIES))
    if unknown:
        raise CannotPackage(
            f"unknown library {', '.join(unknown)}; the archive has {', '.join(LIBRARIES)}"
        )
    libraries = [name for name in LIBRARIES if name not in without]
    with tempfile.TemporaryDirectory(prefix=".roquet-package-", dir=target.parent) as scratch:
        draft = Path(scratch) / target.name
        unpacked_bytes = _write(draft, libraries, Path(scratch))
        put_in_place(draft, target)
    return Package(
        target,
        target.stat().st_size,
        unpacked_bytes,
        f"{sys.version_info.major}.{sys.version_info.minor}",
        sysconfig.get_platform(),
        {name: distribution(name).version for name in libraries},
    )


def _write(path: Path, libraries: Sequence[str], scratch: Path) -> int:
    """The total size, unpacked."""
    bytecode = scratch / "bytecode"
    unpacked_bytes = 0
    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL) as archive:
        for found in _files(libraries):
            archive.write(found.path, str(found.name))
            unpacked_bytes += found.path.stat().st_size
            if found.name.suffix == ".py":
                _compile(found, bytecode)
                archive.write(bytecode, _bytecode_name(found.name))
                unpacked_bytes += bytecode.stat().st_size
        versions = {name: distribution(name).version for name in ("roquet", *libraries)}
        archive.writestr(_MANIFEST, msgspec.json.format(msgspec.json.encode(versions)))
    return unpacked_bytes


def _compile(found: _PackedFile, target: Path) -> None:
    try:
        py_compile.compile(
            str(found.path),
            str(target),
            str(found.name),
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
    except py_compile.PyCompileError as error:
        raise CannotPackage(f"{found.path} cannot be compiled: {error}") from None


def _bytecode_name(name: PurePosixPath) -> str:
    """Where Python expects it."""
    return importlib.util.cache_from_source(str(name))


def _files(libraries: Sequence[str]) -> Iterator[_PackedFile]:
    for name in _PACKAGES:
        yield from _own_files(name)
    for name in libraries:
        yield from _library_files(name)


def _own_files(name: str) -> Iterator[_PackedFile]:
    """From where the package is imported, which may be a source tree."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise CannotPackage(f"{name} is not installed")
    root = Path(spec.origin).parent
    for path in sorted(root.rglob("*")):
        if path.is_file() and _is_wanted(path.relative_to(root)):
            yield _PackedFile(path, PurePosixPath(name, path.relative_to(root)))


def _library_files(name: str) -> Iterator[_PackedFile]:
    try:
        files = distribution(name).files
    except PackageNotFoundError:
        raise CannotPackage(
            f"{name} is not installed: pip install roquet[spark], or leave it out"
        ) from None
    if not files:
        raise CannotPackage(f"{name} has no list of its files: install it again with pip")
    for file in sorted(files):
        # Commands are outside of the directory of modules.
        if ".." not in file.parts and _is_wanted(file):
            yield _PackedFile(Path(str(file.locate())), PurePosixPath(file))


def _is_wanted(path: PurePosixPath | Path) -> bool:
    return _LEFT_OUT_DIRECTORIES.isdisjoint(path.parts) and path.suffix not in _LEFT_OUT_SUFFIXES
