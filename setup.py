"""Compiles every `.pyx`, and writes down the commit; all else is said in pyproject.toml."""

import os
import re
import shlex
import subprocess
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.dist_info import dist_info
from setuptools.command.sdist import sdist

SOURCE = Path("src")
# `roquet --version` reads it; a checkout has none.
COMMIT_FILE = "roquet/built_from.txt"
# Debug information is four fifths of what is compiled: there is none unless CFLAGS ask for it.
COMPILE_ARGUMENTS = [] if "-g" in os.environ.get("CFLAGS", "") else ["-g0"]
CIMPORT = re.compile(r"^from ([\w.]+) cimport (\([^)]*\)|.*)$", re.MULTILINE)
HEADER = re.compile(r'extern from "(roquet/[^"]+)"')
HEADERS = "#include <Python.h>\n#include <zlib.h>\n"
# What Cython adds to each module is half of its size: it stands in one that all of them import.
SHARED = "roquet._cyutility"
SHARED_SOURCE = SOURCE / "roquet/_cyutility.c"
# Memory views take more than all the rest of that, and no server needs them.
WITH_VIEWS = SOURCE / "roquet/protocol/record_columns"
# Without nghttp2 everything else is built, and the gRPC endpoint reports what it lacks.
HTTP2 = SOURCE / "roquet/grpc/http2.pyx"
HTTP2_HEADERS = "#include <nghttp2/nghttp2.h>\n"
# Only Linux has it; servers elsewhere take another event loop.
EPOLL = SOURCE / "roquet/net/epoll_sockets.pyx"
EPOLL_HEADERS = "#include <sys/epoll.h>\n"


def extension(path: Path) -> Extension:
    name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    declarations = sorted(map(str, declarations_of(path) - {path}))
    made = Extension(
        name,
        [str(path)],
        include_dirs=[str(SOURCE)],
        depends=declarations,
        libraries=["nghttp2"] if path == HTTP2 else ["z"],
        extra_compile_args=COMPILE_ARGUMENTS,
    )
    return made if path.parent == WITH_VIEWS else shared(made)


def shared(made: Extension) -> Extension:
    made.shared_utility_qualified_name = SHARED
    made.shared_utility_features_disabled = ["MemoryView"]
    # No object of ours is pickled.
    made.cython_directives = {"auto_pickle": False}
    return made


def declarations_of(path: Path) -> set[Path]:
    """The file, and all that it is compiled with: a change of one concerns few of many modules."""
    known: set[Path] = set()
    rest = {path, path.with_suffix(".pxd")}
    while rest:
        each = rest.pop()
        if each in known or not each.exists():
            continue
        known.add(each)
        text = each.read_text(encoding="utf-8")
        rest |= {SOURCE / header for header in HEADER.findall(text)}
        for package, names in CIMPORT.findall(text):
            place = SOURCE / package.replace(".", "/")
            # What is named may be a module itself.
            rest |= {place.with_suffix(".pxd")}
            rest |= {place / f"{name}.pxd" for name in re.findall(r"\w+", names)}
    return known


def extensions() -> list[Extension]:
    paths = sorted(SOURCE.rglob("*.pyx"))
    if problem_with(HTTP2_HEADERS) is not None:
        print("without the gRPC endpoint: nghttp2.h is missing (on Debian: libnghttp2-dev)")  # noqa: T201
        paths.remove(HTTP2)
    if problem_with(EPOLL_HEADERS) is not None:
        paths.remove(EPOLL)
    return [
        shared(Extension(SHARED, [str(SHARED_SOURCE)], extra_compile_args=COMPILE_ARGUMENTS)),
        *(extension(path) for path in paths),
    ]


def problem_with(headers: str) -> str | None:
    """Why a file that includes these cannot be compiled; None if it can."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    command = [*compiler, f"-I{sysconfig.get_path('include')}", "-E", "-"]
    try:
        done = subprocess.run(  # noqa: S603
            command, input=headers, capture_output=True, text=True, check=False
        )
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return None
    return next((line for line in done.stderr.splitlines() if "error" in line), "")


def check_compiler() -> None:
    """Before minutes of translating what could not be compiled. Raises SystemExit."""
    problem = problem_with(HEADERS)
    if problem is not None:
        raise SystemExit(
            "roquet is compiled from C: install a C compiler and the headers of Python and zlib (on"
            f" Debian: apt-get install gcc libc6-dev zlib1g-dev python3-dev); {problem}"
        )


def commit() -> str | None:
    """Of a checkout; of what was made from one; or as whoever builds without either says."""
    if told := os.environ.get("ROQUET_COMMIT"):
        return told
    if (written := SOURCE / COMMIT_FILE).exists():
        return written.read_text(encoding="ascii").strip()
    if not Path(".git").exists():
        return None
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or None


def write_commit(directory: Path) -> None:
    if known := commit():
        (directory / COMMIT_FILE).write_text(f"{known}\n", encoding="ascii")


class BuildPy(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            write_commit(Path(self.build_lib))


class BuildExt(build_ext):
    def run(self) -> None:
        check_compiler()
        super().run()


class DistInfo(dist_info):
    """What pip asks for first, before it downloads anything that this package needs."""

    def run(self) -> None:
        check_compiler()
        super().run()


class Sdist(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        write_commit(Path(base_dir) / SOURCE)


setup(
    cmdclass={
        "build_ext": BuildExt,
        "build_py": BuildPy,
        "dist_info": DistInfo,
        "sdist": Sdist,
    },
    ext_modules=extensions(),
    options={"build_ext": {"parallel": os.cpu_count()}},
)
