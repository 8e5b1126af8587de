"""Classes of Apache's servers and tools as a JVM has them after loading, half a start's cost.

Tests start a few hundred of these JVMs, and each would load, check and link five thousand classes
again. The archive lies beside the jars that it was made of, one for each release and each Java; a
JVM for which it does not fit leaves it alone.
"""

import hashlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.jars import (
    QUICK_SMALL_JVM,
    START_TIMEOUT_S,
    ApacheVersion,
    JvmNotStarted,
    cache_directory,
    jvm_command,
    made_once,
)
from tests.support.ports import free_port

# What a JVM says of archives goes to its output, where tools write their results.
_SILENCE: Final = "-Xlog:disable"
_FILE: Final = "classes.jsa"
_BOOTED: Final = "boot success"
_POLL_S: Final = 0.05
_NAME_SERVER: Final = "org.apache.rocketmq.namesrv.NamesrvStartup"
_BROKER: Final = "org.apache.rocketmq.broker.BrokerStartup"
_TOOL: Final = "org.apache.rocketmq.tools.command.MQAdminStartup"


@cache
def quick_small_jvm(version: ApacheVersion) -> tuple[str, ...]:
    """Options for JVMs that live for seconds. Raises JvmNotStarted."""
    java = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr
    name = f"classes-{version}-{hashlib.sha256(java).hexdigest()[:12]}"
    place = made_once(cache_directory() / name, lambda made: _make_archive(version, made / _FILE))
    return (*QUICK_SMALL_JVM, _SILENCE, f"-XX:SharedArchiveFile={place / _FILE}")


def _make_archive(version: ApacheVersion, archive: Path) -> None:
    """Of what a name server, a broker and a tool that asks them load."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        port = free_port()
        settings = {"listenPort": port, "bindAddress": "127.0.0.1"}
        with _server(version, _NAME_SERVER, scratch / "namesrv", settings):
            settings = {
                "listenPort": free_port(),
                "bindAddress": "127.0.0.1",
                "brokerIP1": "127.0.0.1",
                "brokerIP2": "127.0.0.1",
                "namesrvAddr": f"127.0.0.1:{port}",
                "storePathRootDir": scratch / "store",
                "mappedFileSizeCommitLog": 8 << 20,
            }
            with _server(version, _BROKER, scratch / "broker", settings):
                tool = _recording(version, scratch / "tool")
                _run([*tool, _TOOL, "clusterList", "-n", f"127.0.0.1:{port}"])
        names = {
            line
            for path in scratch.glob("*/classes")
            for line in path.read_text().splitlines(keepends=True)
        }
        listed = scratch / "classes"
        # Lines with @ describe call sites, which a class has to precede.
        listed.write_text("".join(sorted(names, key=lambda line: (line.startswith("@"), line))))
        dump = f"-XX:SharedArchiveFile={archive}"
        command = jvm_command(version, scratch, tuning=(*QUICK_SMALL_JVM, _SILENCE, "-Xshare:dump"))
        _run([command[0], f"-XX:SharedClassListFile={listed}", dump, *command[1:]])
    if not archive.exists():
        raise JvmNotStarted(f"no archive of the classes of {version} was made")


def _recording(version: ApacheVersion, directory: Path) -> list[str]:
    """A command that lists the classes it loads."""
    tuning = (*QUICK_SMALL_JVM, _SILENCE, f"-XX:DumpLoadedClassList={directory / 'classes'}")
    return jvm_command(version, directory, tuning=tuning)


@contextmanager
def _server(
    version: ApacheVersion, main_class: str, directory: Path, settings: dict[str, object]
) -> Iterator[None]:
    """Until it serves; it is killed at the end."""
    command = _recording(version, directory)
    configuration = directory / "server.conf"
    configuration.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    output = directory / "output"
    with output.open("wb") as log:
        process = subprocess.Popen(
            [*command, main_class, "-c", str(configuration)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while _BOOTED not in output.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise JvmNotStarted(f"{main_class} {version}:\n{output.read_text()[-3000:]}")
            time.sleep(_POLL_S)
        yield
    finally:
        process.kill()
        process.wait()


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise JvmNotStarted(f"{command[-3:]}: {done.stdout}{done.stderr}")
