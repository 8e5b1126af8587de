"""What people would pick instead: other message systems with their Python clients, in one run.

Servers come from Debian and Maven Central, clients from PyPI into environments under build/; what
cannot be had is named and left out. Messages have 128 bytes. Modes take turns, every client in a
process of its own, and the best of two turns counts, for delays the only one:

    one at a time   each send waits for the acknowledgement of the one before
    64 in flight    as many coroutines, or threads where the client blocks
    bulk            ten thousand at once, as the client does it best, all of them acknowledged
    consume         a full topic by one member of a group, acknowledged as they come
    delay           from the call of send in one process to the receipt in another, 500 a second
    after a million the memory of the server with all its processes, when it has a million messages,
                    or as many as its client sends in a minute

`--quick` has one short turn, `--only NAME` the clients and servers with this in a name, `--write`
puts the tables into docs/comparison.md, where rows that `--only` leaves out stay as they are. All
of it takes ten minutes, the clients of one server up to three.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count as numbers
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.rig.measured_page import measured_tables, updated_table, write_measured
from bench.rig.peer_clients import CLIENTS, Figures, PeerClient, measure_delays, run_client
from bench.rig.peer_servers import SERVERS, PeerServer, Unavailable

PAGE: Final = Path(__file__).parents[1] / "docs" / "comparison.md"
FULL_TOPIC: Final = "bench-full"
SETTLE_S: Final = 3.0
RATES: Final = ("send-1", "send-64", "bulk", "consume")
# The cells that tell rows of each table apart.
KEY_SIZES: Final = (2, 2, 1)

_numbers = numbers(1)


class Amounts(NamedTuple):
    turns: int = 2
    seconds: float = 1.5
    delay_s: float = 5.0
    stored: int = 1_000_000
    consumed: int = 200_000


QUICK: Final = Amounts(1, 0.5, 1.0, 100_000, 20_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="one short turn")
    parser.add_argument("--only", default="", metavar="NAME", help="clients or servers")
    parser.add_argument("--write", action="store_true", help="the tables into docs/comparison.md")
    options = parser.parse_args()
    # The servers have sessions of their own: they end with the stack, and only with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    amounts = QUICK if options.quick else Amounts()
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as name, ExitStack() as stack:
        clients = [each for each in CLIENTS if options.only in f"{each.name} {each.server}"]
        servers = start_servers(clients, Path(name), stack)
        figures = measure(servers, installed(clients, servers), amounts)
    tables = [
        list(rate_table(figures, servers)),
        list(delay_table(figures, servers)),
        list(server_table(servers, amounts.stored)),
    ]
    print("\n\n".join(map("\n".join, tables)))
    if options.write:
        command = f"python bench/peers.py{' --quick' if options.quick else ''} --write"
        if options.only:
            command += " --only SERVER"
            tables = list(map(updated_table, measured_tables(PAGE, "peers"), tables, KEY_SIZES))
        rows = [line for table in tables for line in ("", *table)]
        write_measured(PAGE, "peers", rows[1:], command)


Measured = dict[PeerClient, dict[str, Figures]]  # by client and mode


def start_servers(
    clients: list[PeerClient], scratch: Path, stack: ExitStack
) -> dict[str, PeerServer]:
    """One after the other, so that each has the machine for itself while it starts."""
    servers = {}
    for name in dict.fromkeys(client.server for client in clients):
        try:
            servers[name] = SERVERS[name](scratch / name, stack)
        except Unavailable as error:
            print(f"without {name}: {error}")
            continue
        time.sleep(SETTLE_S)
        servers[name].figures["idle MB"] = servers[name].resident_mb()
    return servers


def installed(clients: list[PeerClient], servers: dict[str, PeerServer]) -> list[PeerClient]:
    found = []
    for client in clients:
        try:
            client.install()
        except Unavailable as error:
            print(f"without {client.name}: {error}")
            continue
        if client.server in servers:
            found.append(client)
    return found


def measure(
    servers: dict[str, PeerServer], clients: list[PeerClient], amounts: Amounts
) -> Measured:
    figures: Measured = {}
    fill(servers, clients, amounts.stored)
    for mode in (*RATES, "delay"):
        able = [client for client in clients if mode != "bulk" or client.has_bulk]
        # Those of delays would take most of the time.
        for _ in range(1 if mode == "delay" else amounts.turns):
            able = [
                client
                for client in able
                if keep(figures, client, mode, servers[client.server], amounts)
            ]
    return figures


def fill(servers: dict[str, PeerServer], clients: list[PeerClient], stored: int) -> None:
    """By the first client for asyncio that a server has."""
    is_full = set()
    for client in clients:
        server = servers[client.server]
        if client.is_blocking or client.server in is_full:
            continue
        server.prepare(FULL_TOPIC)
        found = run_client(client, "fill", server, FULL_TOPIC, stored, "bench")
        server.figures["stored"] = found["messages"]
        is_full.add(client.server)
        time.sleep(SETTLE_S)
        server.figures["full MB"] = server.resident_mb()


def keep(
    figures: Measured, client: PeerClient, mode: str, server: PeerServer, amounts: Amounts
) -> bool:
    """Whether it can do that."""
    try:
        found = turn(client, mode, server, amounts)
    except Unavailable as error:
        print(f"without {mode} of {client.name} with {server.name}: {error}")
        return False
    modes = figures.setdefault(client, {})
    if mode not in modes or rate(found) > rate(modes[mode]):
        modes[mode] = found
    return True


def turn(client: PeerClient, mode: str, server: PeerServer, amounts: Amounts) -> Figures:
    number = next(_numbers)
    topic, group = f"bench-{number}", f"bench-{number}"
    if mode == "consume":
        server.begin_with_first(FULL_TOPIC, group)
        return run_client(client, mode, server, FULL_TOPIC, amounts.consumed, group)
    server.prepare(topic)
    if mode == "delay":
        return measure_delays(client, server, topic, amounts.delay_s, group)
    return run_client(client, mode, server, topic, amounts.seconds, group)


def rate(found: Figures) -> float:
    return found["messages"] / found["seconds"]


# --- tables ---


def rate_table(figures: Measured, servers: dict[str, PeerServer]) -> Iterator[str]:
    yield "| server | client | one at a time, /s | 64 in flight, /s | bulk, /s | consume, /s |"
    yield "|---|---|---|---|---|---|"
    for client, modes in figures.items():
        cells = [f"{rate(modes[mode]):,.0f}" if mode in modes else "-" for mode in RATES]
        yield " | ".join((f"| {servers[client.server].name}", client.name, *cells)) + " |"


def delay_table(figures: Measured, servers: dict[str, PeerServer]) -> Iterator[str]:
    yield (
        "| server | client | delay p50, ms | p99 | p99.9 | CPU us of client + server:"
        " 64 in flight | bulk | consume |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for client, modes in figures.items():
        delay = modes.get("delay", {})
        cells = [f"{delay[name] / 1e3:.2f}" if delay else "-" for name in ("p50", "p99", "p999")]
        cells += [costs(modes.get(mode)) for mode in RATES[1:]]
        yield " | ".join((f"| {servers[client.server].name}", client.name, *cells)) + " |"


def costs(found: Figures | None) -> str:
    if found is None:
        return "-"
    count = found["messages"]
    return f"{found['cpu_s'] / count * 1e6:.1f} + {found['server_cpu_s'] / count * 1e6:.1f}"


def server_table(servers: dict[str, PeerServer], stored: int) -> Iterator[str]:
    yield (
        f"| server | start, s | memory idle, MB | after {stored:,} messages, MB"
        " | what an acknowledged message is on |"
    )
    yield "|---|---|---|---|---|"
    for server in servers.values():
        yield (
            f"| {server.name} | {server.start_s:.2f} | {server.figures['idle MB']:,.0f} | "
            f"{memory_when_full(server, stored)} | {server.durability} |"
        )


def memory_when_full(server: PeerServer, wanted: int) -> str:
    if "full MB" not in server.figures:
        return "-"
    stored = server.figures["stored"]
    count = f" ({stored:,.0f} messages)" if stored < wanted else ""
    return f"{server.figures['full MB']:,.0f}{count}"


if __name__ == "__main__":
    main()
