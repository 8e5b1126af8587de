"""Programs with the official SDKs of 5.x, one for each language, for the same stories.

A program gets "STORY TOPIC GROUP" per line and answers each with a JSON text: the same one in every
language, so one table of expectations judges all of them. The sources are in
`tests/interop/grpc/sdks`; SDKs are fetched, and programs compiled, once per machine and change.
"""

import hashlib
import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.support.jars import QUICK_SMALL_JVM, cache_directory, fetch_modules, made_once

JAVA_VERSION: Final = "5.2.0"
GO_NEEDED: Final = (1, 24)
GO_MODULE: Final = "github.com/apache/rocketmq-clients/golang/v5@v5.1.3"
NODE_PACKAGE: Final = "rocketmq-client-nodejs@1.0.8"
CARGO: Final = """\
[package]
name = "sdk"
version = "0.1.0"
edition = "2021"

[dependencies]
rocketmq = "=5.0.0"
# The SDK needs the feature, and does not ask for it.
time = { version = "0.3", features = ["local-offset"] }
tokio = { version = "1", features = ["full"] }
"""
TIMEOUT_S: Final = 120.0

_SOURCES: Final = Path(__file__).parent.parent / "interop" / "grpc" / "sdks"
_LOG_TAIL_SIZE: Final = 4000
_BUILD_TIMEOUT_S: Final = 900.0


class SdkFailed(Exception):
    """A program ended, or does not answer; the message ends with its log."""


class SdkProgram:
    """`words` are an endpoint, and "tls", and an access key with its secret, if wanted."""

    def __init__(self, command: Sequence[str | Path], directory: Path, *words: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._log_path = directory / "sdk.log"
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=directory,
                env={**os.environ, "HOME": str(directory)},
            )
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def run(self, story: str, topic: str, group: str = "none") -> Any:
        """What came out. Raises SdkFailed."""
        self.begin(story, topic, group)
        return self.result(story)

    def begin(self, story: str, topic: str, group: str = "none") -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{story} {topic} {group}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            raise SdkFailed(f"ended before {story}:\n{self.log_tail()}") from None

    def result(self, story: str) -> Any:
        try:
            line = self._answers.get(timeout=TIMEOUT_S)
        except queue.Empty:
            raise SdkFailed(f"did not answer {story}:\n{self.log_tail()}") from None
        if not line:
            raise SdkFailed(f"ended during {story}:\n{self.log_tail()}")
        return json.loads(line)

    def log_tail(self) -> str:
        return self._log_path.read_text(errors="replace")[-_LOG_TAIL_SIZE:]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(b"")


def java_command(home: Path) -> list[str | Path]:
    """A JVM with the Java SDK; it keeps its logs in `home`."""
    jars = made_once(
        cache_directory() / "sdks" / f"java-{JAVA_VERSION}",
        lambda directory: fetch_modules(directory, ("rocketmq-client-java",), JAVA_VERSION),
    )

    def compile_to(directory: Path) -> None:
        options = ("-nowarn", "-encoding", "UTF-8", "-cp", f"{jars}/*", "-d", str(directory))
        source = str(_SOURCES / "java" / "Sdk.java")
        subprocess.run(["javac", *options, source], check=True)

    classes = _built("java", compile_to)
    path = os.pathsep.join((str(classes), f"{jars}/*"))
    return ["java", *QUICK_SMALL_JVM, f"-Duser.home={home}", "-cp", path, "Sdk"]


def python_command() -> list[str | Path]:
    return [sys.executable, _SOURCES / "python" / "sdk.py"]


def missing_go() -> str | None:
    """Why the SDK of Go cannot be built here, if so."""
    if shutil.which("go") is None:
        return "go is not installed"
    found = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True)
    major, minor = map(int, found.stdout.removeprefix("go").split(".")[:2])
    if (major, minor) < GO_NEEDED:
        return f"the SDK wants Go {GO_NEEDED[0]}.{GO_NEEDED[1]}, here is {found.stdout.strip()}"
    return None


def go_command() -> list[str | Path]:
    def build(directory: Path) -> None:
        shutil.copy(_SOURCES / "go" / "main.go", directory)
        for words in (("mod", "init", "sdk"), ("get", GO_MODULE), ("build", "-mod=mod", ".")):
            _run(["go", *words], directory)

    return [_built("go", build) / "sdk"]


def node_command() -> list[str | Path]:
    def build(directory: Path) -> None:
        shutil.copy(_SOURCES / "node" / "sdk.js", directory)
        (directory / "package.json").write_text("{}")
        quietly = ("--ignore-scripts", "--no-audit", "--no-fund")
        _run(["npm", "install", *quietly, NODE_PACKAGE], directory)

    return ["node", _built("node", build) / "sdk.js"]


def rust_command() -> list[str | Path]:
    def build(directory: Path) -> None:
        (directory / "src").mkdir()
        shutil.copy(_SOURCES / "rust" / "main.rs", directory / "src")
        (directory / "Cargo.toml").write_text(CARGO)
        _run(["cargo", "build", "--quiet"], directory)
        shutil.copy(directory / "target" / "debug" / "sdk", directory)
        # A gigabyte that is not needed any more.
        shutil.rmtree(directory / "target")

    return [_built("rust", build) / "sdk"]


def _run(words: Sequence[str], directory: Path) -> None:
    subprocess.run(words, cwd=directory, check=True, timeout=_BUILD_TIMEOUT_S)


def _built(language: str, build: Callable[[Path], None]) -> Path:
    sources = sorted(path for path in (_SOURCES / language).rglob("*") if path.is_file())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    return made_once(cache_directory() / "sdks" / f"{language}-{digest[:16]}", build)
