"""`roquet sql` as it is typed: a process from its start to its end, over topics and over files.

    python bench/sql.py [--rows 1000000] [--rounds 5] [--write]

The broker is on the same machine. The shortest of some rounds counts, as in bench/spark.py, whose
messages these are; `--write` puts the table into docs/performance.md.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.rig.measured_page import write_measured
from bench.spark import PAGE, RECORD_SIZE, Place, compile_once, fill, servers

from tests.support.our_cluster import PROGRAM

STATEMENTS: Final = {
    "the first row": "SELECT * FROM BenchTopic LIMIT 1",
    "count": "SELECT count(*) FROM BenchTopic",
    "count by tag": "SELECT tags, count(*) FROM BenchTopic GROUP BY ALL",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="the table into docs/performance.md")
    given = parser.parse_args()
    compile_once()
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as name, servers(Path(name)) as place:
        place = place._replace(rows=given.rows)
        fill(place)
        rows = table(place, given.rounds)
    print("\n".join(rows))
    if given.write:
        write_measured(PAGE, "sql", rows, "python bench/sql.py --write")


def table(place: Place, rounds: int) -> list[str]:
    sources = {"a topic": ["-n", place.name_server], "files": ["--store", str(place.store)]}
    rows = [
        f"| {place.rows:,} messages of {RECORD_SIZE} bytes".replace(",", " ")
        + "".join(f" | {source}, s | million rows/s" for source in sources)
        + " |",
        "|---" * (1 + 2 * len(sources)) + "|",
    ]
    for name, statement in STATEMENTS.items():
        cells = ""
        for words in sources.values():
            shortest_s = min(seconds(words, statement) for _ in range(rounds))
            rate = "" if "LIMIT" in statement else f"{place.rows / shortest_s / 1e6:.2f}"
            cells += f" | {shortest_s:.2f} | {rate}"
        rows.append(f"| {name}{cells} |")
    return rows


def seconds(words: list[str], statement: str) -> float:
    start_s = time.perf_counter()
    subprocess.run([PROGRAM, "sql", *words, statement], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start_s


if __name__ == "__main__":
    main()
