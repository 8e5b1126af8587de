"""`roquet mqadmin`: the names and flags of Apache's tool, for existing scripts and habits.

Each is translated to a command of ours, which does the work and reports the result.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from roquet.cli.main import run_command

_JAVA_TIME: Final = "%Y-%m-%d#%H:%M:%S:%f"
_PERMISSIONS: Final = {"2": "w", "4": "r", "6": "rw"}

Words = list[str]


class _Flag(NamedTuple):
    letter: str
    name: str
    is_required: bool = False


class _Command(NamedTuple):
    summary: str
    flags: Sequence[_Flag]
    words: Callable[[Namespace], Words]


_TOPIC: Final = _Flag("t", "topic", is_required=True)
_GROUP: Final = _Flag("g", "groupName", is_required=True)
_BROKER: Final = _Flag("b", "brokerAddr")
_THE_BROKER: Final = _Flag("b", "brokerAddr", is_required=True)
_CLUSTER: Final = _Flag("c", "clusterName")


def _option(name: str, value: str | None) -> Words:
    return [] if value is None else [name, value]


def _where(given: Namespace) -> Words:
    return _option("--broker", given.brokerAddr) + _option("--cluster", given.clusterName)


def _time(text: str) -> str:
    """In Java's format, or any that our commands accept."""
    try:
        return datetime.strptime(text, _JAVA_TIME).astimezone().isoformat()
    except ValueError:
        return text


def _range(given: Namespace) -> Words:
    begin, end = given.beginTimestamp, given.endTimestamp
    return [
        *_option("--from", None if begin is None else _time(begin)),
        *_option("--to", None if end is None else _time(end)),
    ]


def _update_topic(given: Namespace) -> Words:
    permission = None if given.perm is None else _PERMISSIONS.get(given.perm, given.perm)
    attributes = (given.attributes or "").split(",")
    return [
        *("topic", "create", given.topic, "--or-change"),
        *_option("--read-queues", given.readQueueNums),
        *_option("--write-queues", given.writeQueueNums),
        *_option("--permission", permission),
        *(["--ordered"] if given.order == "true" else []),
        *(word for each in attributes if each for word in ("--attribute", each.lstrip("+"))),
        *_where(given),
    ]


def _update_group(given: Namespace) -> Words:
    states = {"true": ["--enabled"], "false": ["--disabled"]}
    return [
        *("group", "create", given.groupName),
        *_option("--retries", given.retryMaxTimes),
        *_option("--retry-queues", given.retryQueueNums),
        *states.get(given.consumeEnable, []),
        *_where(given),
    ]


def _reset_by_time(given: Namespace) -> Words:
    to = ("--to-end",) if given.timestamp == "-1" else ("--to-time", _time(given.timestamp))
    if given.timestamp == "0":
        to = ("--to-start",)
    return ["offset", "reset", given.group, given.topic, *to, "--yes"]


def _send(given: Namespace) -> Words:
    queue = [] if given.broker is None else ["--queue", f"{given.broker}:{given.qid or 0}"]
    return [
        *("message", "send", given.topic, given.body),
        *_option("--tags", given.tags),
        *(word for key in (given.keys or "").split() for word in ("--key", key)),
        *queue,
        *(["--trace"] if given.msgTraceEnable == "true" else []),
    ]


_MESSAGE_RANGE: Final = (_Flag("b", "beginTimestamp"), _Flag("e", "endTimestamp"))

COMMANDS: Final = {
    "topicList": _Command(
        "List topics.", [_Flag("c", "clusterModel")], lambda _: ["topic", "list", "--all"]
    ),
    "topicStatus": _Command("Queues of a topic.", [_TOPIC], lambda it: ["topic", "show", it.topic]),
    "topicRoute": _Command("Route of a topic.", [_TOPIC], lambda it: ["topic", "route", it.topic]),
    "topicClusterList": _Command(
        "Clusters of a topic.", [_TOPIC], lambda it: ["topic", "route", it.topic]
    ),
    "updateTopic": _Command(
        "Create or change a topic.",
        [
            _TOPIC,
            _BROKER,
            _CLUSTER,
            _Flag("r", "readQueueNums"),
            _Flag("w", "writeQueueNums"),
            _Flag("p", "perm"),
            _Flag("o", "order"),
            _Flag("a", "attributes"),
        ],
        _update_topic,
    ),
    "updateTopicPerm": _Command(
        "Change the permission of a topic: 2 write, 4 read, 6 both.",
        [_TOPIC, _BROKER, _CLUSTER, _Flag("p", "perm", is_required=True)],
        lambda it: [
            *("topic", "change", it.topic, "--permission", _PERMISSIONS.get(it.perm, it.perm)),
            *_where(it),
        ],
    ),
    "deleteTopic": _Command(
        "Delete a topic.",
        [_TOPIC, _CLUSTER],
        lambda it: [
            *("topic", "delete", it.topic, "--yes"),
            *_option("--cluster", it.clusterName),
        ],
    ),
    "clusterList": _Command("All brokers.", [], lambda _: ["cluster"]),
    "brokerStatus": _Command(
        "Runtime statistics of a broker.",
        [_THE_BROKER],
        lambda it: ["broker", "status", it.brokerAddr],
    ),
    "getBrokerConfig": _Command(
        "Settings of a broker.",
        [_THE_BROKER],
        lambda it: ["broker", "config", "get", it.brokerAddr],
    ),
    "updateBrokerConfig": _Command(
        "Change a setting of a broker.",
        [
            _THE_BROKER,
            _Flag("k", "key", is_required=True),
            _Flag("v", "value", is_required=True),
        ],
        lambda it: ["broker", "config", "set", it.brokerAddr, f"{it.key}={it.value}"],
    ),
    "wipeWritePerm": _Command(
        "Forbid writes at a broker.",
        [_Flag("b", "brokerName", is_required=True)],
        lambda it: ["broker", "writes", "forbid", it.brokerName],
    ),
    "addWritePerm": _Command(
        "Allow writes at a broker again.",
        [_Flag("b", "brokerName", is_required=True)],
        lambda it: ["broker", "writes", "allow", it.brokerName],
    ),
    "updateSubGroup": _Command(
        "Create or change a group.",
        [
            _GROUP,
            _BROKER,
            _CLUSTER,
            _Flag("s", "consumeEnable"),
            _Flag("r", "retryMaxTimes"),
            _Flag("q", "retryQueueNums"),
        ],
        _update_group,
    ),
    "deleteSubGroup": _Command(
        "Delete a group; its offsets are kept, unless -r true.",
        [_GROUP, _CLUSTER, _Flag("r", "removeOffset")],
        lambda it: [
            *("group", "delete", it.groupName, "--yes"),
            *([] if it.removeOffset == "true" else ["--keep-offsets"]),
            *_option("--cluster", it.clusterName),
        ],
    ),
    "consumerProgress": _Command(
        "Progress of consumer groups.",
        [_Flag("g", "groupName"), _Flag("t", "topicName")],
        lambda it: (
            ["group", "list"]
            if it.groupName is None
            else ["group", "show", it.groupName, *_option("--topic", it.topicName)]
        ),
    ),
    "consumerConnection": _Command(
        "Connected members of a group.",
        [_Flag("g", "consumerGroup", is_required=True)],
        lambda it: ["group", "members", it.consumerGroup],
    ),
    "consumerStatus": _Command(
        "State of a member of a group.",
        [_Flag("g", "consumerGroup", is_required=True), _Flag("i", "clientId")],
        lambda it: ["group", "members", it.consumerGroup, *_option("--member", it.clientId)],
    ),
    "sendMessage": _Command(
        "Send a message.",
        [
            _TOPIC,
            _Flag("p", "body", is_required=True),
            _Flag("k", "keys"),
            _Flag("c", "tags"),
            _Flag("b", "broker"),
            _Flag("i", "qid"),
            _Flag("m", "msgTraceEnable"),
        ],
        _send,
    ),
    "queryMsgById": _Command(
        "A message by its offset id.",
        [_TOPIC, _Flag("i", "msgId", is_required=True)],
        lambda it: ["message", "by-id", it.topic, it.msgId],
    ),
    "queryMsgByUniqueKey": _Command(
        "A message by its unique key, which is its message id.",
        [_TOPIC, _Flag("i", "msgId", is_required=True)],
        lambda it: ["message", "by-id", it.topic, it.msgId],
    ),
    "queryMsgByKey": _Command(
        "Messages by a key.",
        [
            _TOPIC,
            _Flag("k", "msgKey", is_required=True),
            *_MESSAGE_RANGE,
            _Flag("m", "maxNum"),
        ],
        lambda it: [
            *("message", "by-key", it.topic, it.msgKey),
            *_range(it),
            *_option("--count", it.maxNum),
        ],
    ),
    "queryMsgByOffset": _Command(
        "A message by its queue offset.",
        [
            _TOPIC,
            _Flag("b", "brokerName", is_required=True),
            _Flag("i", "queueId", is_required=True),
            _Flag("o", "offset", is_required=True),
        ],
        lambda it: [
            *("message", "by-offset", it.topic, f"{it.brokerName}:{it.queueId}", it.offset)
        ],
    ),
    "printMsg": _Command(
        "Messages by the time they were stored.",
        [_TOPIC, *_MESSAGE_RANGE],
        lambda it: ["message", "by-time", it.topic, *_range(it)],
    ),
    "queryMsgTraceById": _Command(
        "Trace of a message.",
        [_Flag("i", "msgId", is_required=True), _Flag("t", "traceTopic")],
        lambda it: ["message", "trace", it.msgId, *_option("--trace-topic", it.traceTopic)],
    ),
    "getAclConfig": _Command(
        "Accounts of brokers, without secrets.",
        [_BROKER, _CLUSTER],
        lambda it: ["account", "list", *_where(it)],
    ),
    "deleteAclConfig": _Command(
        "Remove an account.",
        [_BROKER, _CLUSTER, _Flag("a", "accessKey", is_required=True)],
        lambda it: ["account", "remove", it.accessKey, "--yes", *_where(it)],
    ),
    "resetOffsetByTime": _Command(
        "Reset the offsets of a group to a time.",
        [
            _Flag("g", "group", is_required=True),
            _TOPIC,
            _Flag("s", "timestamp", is_required=True),
        ],
        _reset_by_time,
    ),
    "skipAccumulatedMessage": _Command(
        "Skip all stored messages.",
        [_Flag("g", "group", is_required=True), _TOPIC],
        lambda it: ["offset", "skip", it.group, it.topic, "--yes"],
    ),
    "cloneGroupOffset": _Command(
        "Set the offsets of a group to those of another one.",
        [
            _Flag("s", "srcGroup", is_required=True),
            _Flag("d", "destGroup", is_required=True),
            _TOPIC,
        ],
        lambda it: ["offset", "clone", it.srcGroup, it.destGroup, it.topic, "--yes"],
    ),
}


def define(parser: ArgumentParser) -> None:
    parser.description = (
        "Commands of Apache's mqadmin, with its names and flags. As there, changes are made"
        " without confirmation."
    )
    names = parser.add_subparsers(metavar="NAME", required=True)
    for name, command in COMMANDS.items():
        own = names.add_parser(
            name, help=command.summary, description=command.summary, allow_abbrev=False
        )
        own.add_argument("-n", "--namesrvAddr", metavar="ADDRESSES")
        own.add_argument("--json", action="store_true", help="Print JSON.")
        for flag in command.flags:
            own.add_argument(
                f"-{flag.letter}", f"--{flag.name}", required=flag.is_required, dest=flag.name
            )
        own.set_defaults(run=_runner(command))


def _runner(command: _Command) -> Callable[[Namespace], int]:
    def run(given: Namespace) -> int:
        more = [*_option("-n", given.namesrvAddr), *(["--json"] if given.json else [])]
        return run_command([*command.words(given), *more])

    return run
