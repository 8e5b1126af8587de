"""One JVM that runs real Java clients of Apache RocketMQ for all tests of a session.

The Java half is in `tests/interop/java`, and `Driver.java` says how the two talk. Tests use the
clients of `java_client.py`, not the commands.
"""

import hashlib
import subprocess
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import IO, Self, TypeVar

import msgspec

from tests.support.apache_classes import quick_small_jvm
from tests.support.jars import (
    START_TIMEOUT_S,
    ApacheVersion,
    JvmNotStarted,
    cache_directory,
    jar_directory,
    jvm_command,
    made_once,
)
from tests.support.signing import operator

_SOURCES = Path(__file__).parent.parent / "interop" / "java"
_ANSWER_TIMEOUT_S = 60.0
_LOG_TAIL_SIZE = 3000

# A consumer looks for queues when its group changes and else every 20 seconds, by default; a retry
# topic, which is made for its first failure, would wait for that. A 5.5.0 consumer also keeps a
# second between two looks, the first included.
_QUICK_CLIENTS = {
    "rocketmq.client.rebalance.waitInterval": "1000",
    "rocketmq.client.rebalance.minInterval": "50",
}

T = TypeVar("T")

_handles = count(1)


class JavaFailure(Exception):
    """The Java side threw; `code` is the response code where there is one."""

    def __init__(self, command: str, kind: str, message: str, code: int | None) -> None:
        super().__init__(f"{command}: {kind}: {message}")
        self.kind = kind
        self.code = code


class DriverGone(Exception):
    """The JVM ended or does not answer; the message ends with its log."""


class AdminOutput(msgspec.Struct, frozen=True):
    """What mqadmin printed. It exits with 0 whatever happens: failures are complaints."""

    output: str
    complaints: str


class _Error(msgspec.Struct, frozen=True):
    type: str
    message: str
    code: int | None = None


class _Answer(msgspec.Struct, frozen=True):
    id: int
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: _Error | None = None


class JavaDriver:
    """The JVM of one client version. Any thread may call; answers do not wait for each other.

    `properties` are system properties of the JVM, such as {"rocketmq.serialize.type": "ROCKETMQ"}.
    """

    def __init__(
        self,
        version: ApacheVersion,
        directory: Path,
        properties: dict[str, str] | None = None,
    ) -> None:
        """Returns when the JVM answers. Raises JvmNotStarted."""
        self.version = version
        self._log_path = directory / "driver.log"
        self._tools_path = directory / "conf" / "tools.yml"
        self._ids = count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[_Answer]] = {}
        self._is_gone = False
        command = jvm_command(
            version,
            directory,
            _compiled(version),
            properties=_QUICK_CLIENTS | (properties or {}),
            tuning=quick_small_jvm(version),
        )
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "Driver"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=directory,  # where some commands of mqadmin leave files
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests: IO[bytes] = self._process.stdin
        self._answers: IO[bytes] = self._process.stdout
        self._reader = threading.Thread(target=self._read_answers, name=str(self))
        self._reader.start()
        try:
            self.call("ready", {}, bool, START_TIMEOUT_S)
        except DriverGone as error:
            self.close()
            raise JvmNotStarted(str(error)) from None

    def call(
        self,
        command: str,
        arguments: Mapping[str, object],
        answer_type: type[T],
        timeout_s: float = _ANSWER_TIMEOUT_S,
    ) -> T:
        """Raises JavaFailure when the Java side throws, DriverGone when there is none."""
        waiting: Future[_Answer] = Future()
        with self._lock:
            if self._is_gone:
                raise self._gone("ended before")
            number = next(self._ids)
            self._waiting[number] = waiting
            request = {"id": number, "command": command, "arguments": arguments}
            try:
                self._requests.write(msgspec.json.encode(request) + b"\n")
                self._requests.flush()
            except BrokenPipeError:
                raise self._gone("ended") from None
        try:
            answer = waiting.result(timeout_s)
        except TimeoutError:
            raise self._gone(f"did not answer {command}") from None
        if answer.error is not None:
            error = answer.error
            raise JavaFailure(command, error.type, error.message, error.code)
        return msgspec.json.decode(answer.result, type=answer_type)

    def reserialize(self, java_class: str, body: bytes) -> bytes:
        """`body` read by Java's own class, such as "route.TopicRouteData", and written again."""
        return self.call("body.reserialize", {"class": java_class, "body": body}, bytes)

    def mqadmin(self, *words: str, credentials: tuple[str, str] | None = None) -> AdminOutput:
        """Runs the command line tool, inside the JVM that is there already.

        `credentials` are an access key and its secret. Words that it cannot parse make it exit, and
        the JVM with it: DriverGone.
        """
        credentials = credentials or operator()
        access_key, secret_key = credentials or (None, None)
        arguments = {"words": words, "accessKey": access_key, "secretKey": secret_key}
        # 4.9 takes them from nowhere else.
        if credentials is None:
            self._tools_path.unlink(missing_ok=True)
        else:
            self._tools_path.write_text(f"accessKey: {access_key}\nsecretKey: {secret_key}\n")
        return self.call("mqadmin", arguments, AdminOutput)

    def new_handle(self, role: str) -> str:
        """A name that no other client has: it is part of the client's id, in every JVM."""
        return f"{role}-{next(_handles)}"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._answers.close()
        # A request that the JVM did not live to read is still in the buffer.
        with suppress(BrokenPipeError):
            self._requests.close()

    def log_tail(self) -> str:
        return self._log_path.read_text(errors="replace")[-_LOG_TAIL_SIZE:]

    def __str__(self) -> str:
        return f"Java clients {self.version}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read_answers(self) -> None:
        decode = msgspec.json.Decoder(_Answer).decode
        try:
            for line in self._answers:
                answer = decode(line)
                self._waiting.pop(answer.id).set_result(answer)
        finally:
            with self._lock:
                self._is_gone = True
                for waiting in self._waiting.values():
                    waiting.set_exception(self._gone("ended"))

    def _gone(self, what: str) -> DriverGone:
        return DriverGone(f"{self} {what}:\n{self.log_tail()}")


def _compiled(version: ApacheVersion) -> Path:
    """The class files of the driver, compiled once for each version and each change of it."""
    sources = sorted(_SOURCES.glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()

    def compile_to(directory: Path) -> None:
        jars = str(jar_directory(version) / "*")
        options = ("-nowarn", "-encoding", "UTF-8", "-cp", jars, "-d", str(directory))
        subprocess.run(["javac", *options, *map(str, sources)], check=True)

    return made_once(cache_directory() / "driver" / f"{version}-{digest[:16]}", compile_to)
