"""Hosts with a network of their own: a namespace each, and a switch between them that fails.

        host "a"             switch            host "b"
    eth0 10.0.0.1 ---- to-a [bridge] to-b ---- eth0 10.0.0.2

It is invisible from outside, so there may be any number of them. What is lost on the way is
dropped by the switch (nftables, which every kernel of today has; netem many have not), so neither
end hears of it; a slow line is a token bucket at both ends of it.
"""

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

_PROGRAMS: Final = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables", "nsenter": "util-linux"}
_NAMES: Final = Path("/run/netns")
_OWN_NAMESPACE: Final = Path("/proc/thread-self/ns/net")
_CLONE_NEWNET: Final = 0x40000000
_OURS: Final = re.compile(r"roquet-(\d+)-\d+-\w+")
_SWITCH: Final = "switch"
_TABLE: Final = "bridge faults"
# A bucket that one full segment with its headers fits, and how long a packet may wait for its turn.
_BURST_SIZE: Final = "16kb"
_QUEUED_MS_MAX: Final = "400ms"
_numbers = count()


class NetworkFailed(Exception):
    """The kernel, or a program that speaks to it, refused; the message has its output."""


class Drop(NamedTuple):
    """So many of a hundred packets from one host to another are lost."""

    source: str
    target: str
    percent: int = 100


class Network:
    """While the block runs, its hosts can reach each other as far as its faults let them."""

    def __init__(self, *hosts: str) -> None:
        prefix = f"roquet-{os.getpid()}-{next(_numbers)}"
        self._namespaces = {host: f"{prefix}-{host}" for host in (*hosts, _SWITCH)}
        self._addresses = {host: f"10.0.0.{number}" for number, host in enumerate(hosts, 1)}
        self._drops: list[Drop] = []

    def __enter__(self) -> Self:
        _sweep()
        try:
            self._set_up()
        except BaseException:
            self._take_down()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._take_down()

    @property
    def hosts(self) -> list[str]:
        return list(self._addresses)

    def address(self, host: str) -> str:
        return self._addresses[host]

    def under(self, host: str) -> tuple[str, ...]:
        """What has to stand before the words of a command, so that it runs on a host."""
        return ("nsenter", f"--net={_NAMES / self._namespaces[host]}")

    @contextmanager
    def inside(self, host: str) -> Iterator[None]:
        """This thread, and those that it starts, are on a host; so are sockets they make."""
        with _OWN_NAMESPACE.open() as before, (_NAMES / self._namespaces[host]).open() as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())

    @contextmanager
    def dropping(self, *drops: Drop) -> Iterator[None]:
        self._drops.extend(drops)
        self._tell_switch()
        try:
            yield
        finally:
            for drop in drops:
                self._drops.remove(drop)
            self._tell_switch()

    @contextmanager
    def slowed(self, host: str, rate: str) -> Iterator[None]:
        """The line of a host has a rate, such as "1mbit", in each direction."""
        ends = ((self._namespaces[host], "eth0"), (self._namespaces[_SWITCH], f"to-{host}"))
        bucket = ("tbf", "rate", rate, "burst", _BURST_SIZE, "latency", _QUEUED_MS_MAX)
        for namespace, device in ends:
            _run("tc", "-n", namespace, "qdisc", "add", "dev", device, "root", *bucket)
        try:
            yield
        finally:
            for namespace, device in ends:
                _run("tc", "-n", namespace, "qdisc", "del", "dev", device, "root")

    def _set_up(self) -> None:
        for namespace in self._namespaces.values():
            _run("ip", "netns", "add", namespace)
            _run("ip", "-n", namespace, "link", "set", "lo", "up")
        switch = self._namespaces[_SWITCH]
        _run("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "bridge", "up")
        for host, address in self._addresses.items():
            at_host, port = ("ip", "-n", self._namespaces[host]), f"to-{host}"
            pair = ("type", "veth", "peer", "name", port, "netns", switch)
            _run(*at_host, "link", "add", "eth0", *pair)
            _run(*at_host, "address", "add", f"{address}/24", "dev", "eth0")
            _run(*at_host, "link", "set", "eth0", "up")
            _run("ip", "-n", switch, "link", "set", port, "master", "bridge", "up")

    def _take_down(self) -> None:
        for namespace in self._namespaces.values():
            if (_NAMES / namespace).exists():
                _run("ip", "netns", "delete", namespace)

    def _tell_switch(self) -> None:
        """All that it drops, in one step: what was dropped before is forgotten."""
        lines = [
            f"add table {_TABLE}",
            f"delete table {_TABLE}",
            f"add table {_TABLE}",
            f"add chain {_TABLE} forward {{ type filter hook forward priority 0; }}",
        ]
        for drop in self._drops:
            source, target = self._addresses[drop.source], self._addresses[drop.target]
            chance = "" if drop.percent == 100 else f"numgen random mod 100 < {drop.percent} "
            lines.append(
                f"add rule {_TABLE} forward ip saddr {source} ip daddr {target} {chance}drop"
            )
        words = ("nsenter", f"--net={_NAMES / self._namespaces[_SWITCH]}", "nft", "-f", "-")
        _run(*words, stdin="\n".join(lines) + "\n")


@cache
def missing_network() -> str | None:
    """Why this machine cannot have such a network; None if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program, package in _PROGRAMS.items():
        if shutil.which(program) is None:
            return f"{program} is missing (Debian's {package})"
    try:
        with Network("a", "b") as network:
            with network.dropping(Drop("a", "b", 30)), network.slowed("a", "1mbit"):
                pass
            with network.inside("a"):
                pass
    except (NetworkFailed, OSError) as error:
        return f"no network of its own: {error}"
    return None


def _sweep() -> None:
    """Those who were killed have left theirs."""
    for path in _NAMES.iterdir() if _NAMES.exists() else ():
        ours = _OURS.fullmatch(path.name)
        if ours is not None and not Path("/proc", ours[1]).exists():
            with suppress(NetworkFailed):  # Somebody else sweeps, too.
                _run("ip", "netns", "delete", path.name)


def _enter(namespace: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(namespace, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _run(*words: str, stdin: str | None = None) -> None:
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkFailed(f"{' '.join(words)}: {done.stderr.strip()}")
