"""What commands cost an operator: processor time of ours and of Apache's mqadmin for the same.

A cluster of ours with 500 topics, and 300 groups that read one topic each. Each command is a
process of its own, as in a shell, and the best of its runs counts. Only ratios mean anything;
the goal is that none is above 1. `doctor` has no twin. `--quick` has a tenth of everything.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from roquet import Admin, Message, Producer, StartFrom, TopicSettings
from tests.support.jars import ApacheVersion, jvm_command
from tests.support.our_cluster import PROGRAM, OurCluster

TOPIC_COUNT: Final = 500
GROUP_COUNT: Final = 300
RUNS: Final = 2
RATIO_GOAL: Final = 1.0
# As its script starts it.
TOOL_JVM: Final = ("-Xms1g", "-Xmx1g", "-Xmn256m", "-XX:MetaspaceSize=128m")
TOOL: Final = "org.apache.rocketmq.tools.command.MQAdminStartup"


class Pair(NamedTuple):
    ours: str
    theirs: str


PAIRS: Final = (
    Pair("topic list", "topicList"),
    Pair("topic show topic-0", "topicStatus -t topic-0"),
    Pair("group list", "consumerProgress"),
    Pair("group show group-0", "consumerProgress -g group-0"),
    Pair("cluster", "clusterList"),
    Pair("producers", "producer -b {broker}"),
    Pair("mqadmin statsAll", "statsAll"),
    Pair("mqadmin brokerConsumeStats -b {broker}", "brokerConsumeStats -b {broker}"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of topics and groups")
    part = 10 if parser.parse_args().quick else 1
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as name:
        scratch = Path(name)
        with OurCluster(scratch / "ours") as cluster:
            fill(cluster.name_server, TOPIC_COUNT // part, GROUP_COUNT // part)
            report(cluster, scratch)


def fill(name_server: str, topic_count: int, group_count: int) -> None:
    one_queue = TopicSettings(read_queue_count=1, write_queue_count=1)
    with Admin(name_server, timeout_s=60.0) as admin, Producer(name_server, "filling") as producer:
        for number in range(topic_count):
            admin.create_topic(f"topic-{number}", one_queue)
            producer.send(Message(f"topic-{number}", b"x"), timeout_s=60)
        for number in range(group_count):
            group, topic = f"group-{number}", f"topic-{number}"
            admin.create_group(group)
            # Apache's tool finds groups by these topics.
            admin.create_topic(f"%RETRY%{group}", one_queue)
            admin.apply_reset(admin.plan_reset(group, topic, StartFrom.FIRST))


def report(cluster: OurCluster, scratch: Path) -> None:
    tool = [*jvm_command(ApacheVersion.V4_9_7, scratch / "java", tuning=TOOL_JVM), TOOL]
    print(f"{'processor seconds':44}{'ours':>10}{'mqadmin':>10}{'ratio':>8}{'goal':>8}")
    for pair in PAIRS:
        ours, theirs = (words.format(broker=cluster.broker).split() for words in pair)
        names = ("-n", cluster.name_server)
        own_s = cpu_s([str(PROGRAM), *ours, *names], scratch)
        their_s = cpu_s([*tool, *theirs, *names], scratch)
        ratio = own_s / their_s
        print(
            f"{pair.ours:44}{own_s:10.2f}{their_s:10.2f}{ratio:8.2f}{RATIO_GOAL:8.2f}", flush=True
        )
    alone_s = cpu_s([str(PROGRAM), "doctor", "-n", cluster.name_server], scratch, exit_codes=(0, 1))
    print(f"{'doctor':44}{alone_s:10.2f}")


def cpu_s(command: Sequence[str], scratch: Path, exit_codes: Sequence[int] = (0,)) -> float:
    """The least of several runs."""
    return min(run_once(command, scratch, exit_codes) for _ in range(RUNS))


def run_once(command: Sequence[str], scratch: Path, exit_codes: Sequence[int]) -> float:
    with (scratch / "output").open("w+b") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=scratch)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        printed = output.read()
    if process.returncode not in exit_codes or b"Exception" in printed:
        raise SystemExit(f"{command[-4:]} failed: {printed[-1000:].decode(errors='replace')}")
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
