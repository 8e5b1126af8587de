"""The jars of Apache RocketMQ, and the command line of a JVM that runs them.

Ivy, which comes inside pyspark's wheel, fetches them, so neither Maven nor a jar in the
repository is needed. They are kept outside the work tree and fetched once per machine.
Only processes of the tests use this; Roquet itself needs no Java.
"""

import fcntl
import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path

_ORGANISATION = "org.apache.rocketmq"
_MODULES = ("rocketmq-namesrv", "rocketmq-broker", "rocketmq-client", "rocketmq-tools")
_FETCH_TIMEOUT_S = 900.0
# It takes two or three seconds on a machine that has nothing else to do.
START_TIMEOUT_S = 120.0

# Java 17 closed what RocketMQ and its libraries reach into. Without the last one a 4.9.7 broker
# dies while it stops and leaves its store marked as crashed.
_OPENED_PACKAGES = ("java.nio", "sun.nio.ch", "java.util", "java.lang", "jdk.internal.ref")

QUICK_SMALL_JVM = (
    "-Xms32m",
    "-Xmx256m",
    # A limit, not a size: all tests of a run share a broker, and its buffers add up.
    "-XX:MaxDirectMemorySize=512m",
    "-XX:+UseSerialGC",
    # No second compiler: these processes live for seconds and share two cores.
    "-XX:TieredStopAtLevel=1",
)

# RocketMQ's own defaults write to the home directory. 4.9.7 takes the first three from
# ROCKETMQ_HOME/conf; its libraries take the fourth and 5.5.0 the last from the class path.
_LOG_CONFIGURATIONS = (
    "logback_namesrv.xml",
    "logback_broker.xml",
    "logback_tools.xml",
    "logback.xml",
    "rmq.logback.xml",
)
_LOG_CONFIGURATION = """\
<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target>
    <encoder><pattern>%d{HH:mm:ss.SSS} %-5level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <!-- These two warn every second that there is nothing to do. -->
  <logger name="RocketmqPop" level="ERROR"/>
  <logger name="RocketmqTransaction" level="ERROR"/>
  <root level="WARN"><appender-ref ref="console"/></root>
</configuration>
"""


class ApacheVersion(StrEnum):
    """The releases that Roquet is held compatible with."""

    V4_9_7 = "4.9.7"
    V5_5_0 = "5.5.0"


class JarsUnavailable(Exception):
    """The jars are not in the cache and could not be fetched."""


class JvmNotStarted(Exception):
    """A JVM ended, or printed nothing for too long, before it did what it is for."""


def jar_directory(version: ApacheVersion) -> Path:
    """All jars of servers, clients and tools. The first call on a machine takes minutes."""
    return made_once(
        cache_directory() / "jars" / version, lambda directory: _fetch(version, directory)
    )


def jvm_command(
    version: ApacheVersion,
    home: Path,
    *class_path: Path,
    properties: Mapping[str, str] | None = None,
    tuning: Sequence[str] = QUICK_SMALL_JVM,
) -> list[str]:
    """`java ...` up to and without the main class. Everything it writes by itself is in `home`."""
    configuration = home / "conf"
    configuration.mkdir(parents=True, exist_ok=True)
    for name in _LOG_CONFIGURATIONS:
        (configuration / name).write_text(_LOG_CONFIGURATION)
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES]
    settings = {
        "user.home": str(home),
        "rocketmq.home.dir": str(home),
        "rocketmq.client.logRoot": str(home / "logs"),
        # A server would make a key pair of its own first: two seconds of arithmetic.
        "tls.server.mode": "disabled",
    } | dict(properties or {})
    # Jars first, and in the same order: an archive of classes fits no other class path.
    jars = sorted(jar_directory(version).glob("*.jar"))
    entries = map(str, [*jars, configuration, *class_path])
    return [
        "java",
        *opened,
        *tuning,
        *(f"-D{name}={value}" for name, value in settings.items()),
        "-cp",
        os.pathsep.join(entries),
    ]


def cache_directory() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "roquet"


def made_once(target: Path, make: Callable[[Path], None]) -> Path:
    """The directory `target`, made by whoever asks first, in one piece, also across processes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".making-") as scratch:
                draft = Path(scratch) / target.name
                draft.mkdir()
                make(draft)
                draft.rename(target)
    return target


def _fetch(version: ApacheVersion, directory: Path) -> None:
    """All four modules at once, so that each library is resolved to one version."""
    fetch_modules(directory, _MODULES, version)
    if not any(directory.glob("rocketmq-broker-*.jar")):
        raise JarsUnavailable(f"Ivy did not find RocketMQ {version}")


def fetch_modules(
    directory: Path, modules: Sequence[str], version: str, organisation: str = _ORGANISATION
) -> None:
    """Modules of one organisation with all that they need. Raises JarsUnavailable."""
    dependencies = "".join(
        f'<dependency org="{organisation}" name="{module}" rev="{version}"'
        ' conf="default->default"/>'
        for module in modules
    )
    # Some jars are published as type "bundle".
    printed = _retrieved(directory, dependencies, ("jar", "bundle"))
    if not any(directory.glob("*.jar")):
        text = f"Ivy could not fetch {', '.join(modules)} {version}"
        raise JarsUnavailable(f"{text}:\n{printed[-4000:]}")


def fetch_jars(directory: Path, jars: Sequence[tuple[str, str, str]]) -> None:
    """Exactly these, by organisation, module and version. Raises JarsUnavailable."""
    dependencies = "".join(
        f'<dependency org="{organisation}" name="{module}" rev="{version}" transitive="false"/>'
        for organisation, module, version in jars
    )
    _retrieved(directory, dependencies, ("jar", "bundle"))


def fetch_archive(directory: Path, organisation: str, module: str, version: str) -> Path:
    """The archive of a program with all its jars. Raises JarsUnavailable."""
    dependency = (
        f'<dependency org="{organisation}" name="{module}" rev="{version}" transitive="false">'
        f'<artifact name="{module}" type="tar.gz" ext="tar.gz" m:classifier="all"/></dependency>'
    )
    printed = _retrieved(directory, dependency, ("tar.gz",))
    found = [*directory.glob("*.tar.gz")]
    if not found:
        raise JarsUnavailable(f"Ivy could not fetch {module} {version}:\n{printed[-4000:]}")
    return found[0]


def _retrieved(directory: Path, dependencies: str, types: Sequence[str]) -> str:
    """What Ivy printed. Raises JarsUnavailable."""
    with tempfile.TemporaryDirectory() as scratch:
        request = Path(scratch) / "ivy.xml"
        request.write_text(
            '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
            '<info organisation="roquet" module="interop"/>'
            '<configurations><conf name="default"/></configurations>'
            f"<dependencies>{dependencies}</dependencies></ivy-module>"
        )
        which = ("-ivy", str(request), "-types", *types)
        where = ("-retrieve", f"{directory}/[artifact]-[revision](-[classifier]).[ext]")
        run = subprocess.run(
            ["java", "-jar", str(_ivy()), "-cache", f"{scratch}/cache", *which, *where],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_FETCH_TIMEOUT_S,
            check=False,
        )
    if run.returncode != 0:
        raise JarsUnavailable(f"Ivy failed:\n{run.stdout[-4000:]}")
    return run.stdout


def _ivy() -> Path:
    spark = importlib.util.find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise JarsUnavailable("pyspark, whose wheel carries Ivy, is not installed")
    jars = sorted((Path(spark.origin).parent / "jars").glob("ivy-*.jar"))
    if not jars:
        raise JarsUnavailable("pyspark's wheel carries no Ivy")
    return jars[-1]
