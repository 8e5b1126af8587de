"""What people get wrong in their first hour, and the words that tell them so."""

import json
from pathlib import Path

import pytest

from tests.newcomer.conftest import Cluster
from tests.support.newcomer_home import Home

pytestmark = pytest.mark.xdist_group("newcomer")

# What is typed -> what stands on standard error, to the letter.
COMMANDS = {
    "roquet up --host nowhere.invalid": ("roquet up: cannot resolve host 'nowhere.invalid'"),
    "roquet up --name-server-port 0 --broker-port 0 --dir notes.txt": (
        "roquet up: the store cannot write: [Errno 17] File exists: 'notes.txt'"
    ),
    "roquet broker -c nothing.conf": (
        "roquet broker: [Errno 2] No such file or directory: 'nothing.conf'"
    ),
    "roquet broker -c acl.conf": (
        "roquet broker: aclEnable needs a file of accounts: set aclFile, give --acl-file, or"
        " ROCKETMQ_HOME"
    ),
    "roquet broker -c wildcard.conf": (
        "roquet broker: brokerIP1='0.0.0.0': expected a host that clients can connect to"
    ),
    "roquet namesrv -c auth.conf": (
        "roquet namesrv: authenticationEnabled=true is not supported (users and policies in a"
        " database): set it to false, and use aclEnable, with accounts in a file"
    ),
    "roquet namesrv -c tls.conf": (
        "roquet namesrv: tlsEnable=true is not supported (encrypted connections): the TLS options"
        " are tls.server.mode, tls.enable and others, see docs/security.md"
    ),
    "roquet store inspect nowhere": ("roquet store inspect: nowhere: No such file or directory"),
    "roquet store inspect empty": "roquet store inspect: empty: no commitlog in this directory",
    "roquet store verify empty": (
        "roquet store verify: numpy is not installed: pip install 'roquet[tools]'"
    ),
    "roquet spark ingest --topic orders --lake lake --checkpoint c": (
        "roquet spark ingest: Spark is not installed: pip install roquet[spark]"
    ),
}
FILES = {
    "notes.txt": "not a directory",
    "acl.conf": "aclEnable=true\n",
    "auth.conf": "authenticationEnabled=true\n",
    "tls.conf": "tlsEnable=true\n",
    "wildcard.conf": "brokerIP1=0.0.0.0\n",
}

# A call of the client -> the error it raises, to the letter.
CALLS = {
    'Producer("127.0.0.1", "shop")': (
        "BadAddress: '127.0.0.1' is not an address of the form host:port"
    ),
    'PushConsumer(server, "bil ling")': (
        "BadArgument: group 'bil ling' may have letters, digits and %|_- only"
    ),
    'producer.send("orders")': "BadArgument: `message` has to be a Message, not 'orders'",
    'producer.send(Message("orders", "one coffee"))': (
        "BadArgument: `body` has to be bytes, not the text 'one coffee': use .encode()"
    ),
    'producer.send(Message("orders", b""))': (
        "BadArgument: a message with an empty body cannot be sent"
    ),
    'producer.send(Message("orders", b"1", tags=5))': (
        "BadArgument: `tags` has to be a text, not 5"
    ),
    'producer.send(Message("orders", b"1", properties={"table": 1}))': (
        "BadArgument: property 'table' has to be a text, not 1: use str()"
    ),
    'producer.send(Message("orders", b"1", properties={"table": ""}))': (
        "BadArgument: property 'table' cannot be '': name and value have to be there, without the"
        r" characters \x01 (of a name) and \x02 (of both), which stand between them"
    ),
    'PushConsumer(server, "billing", isinstance)': (
        "BadArgument: `listener` has to be a function of one message, or of one list of them, not"
        " <built-in function isinstance>"
    ),
    'producer.send(Message("orders", b"1"), delay=1.5)': (
        "BadArgument: `delay` has to be a timedelta or a datetime, not 1.5: for seconds give"
        " timedelta(seconds=1.5)"
    ),
    'PushConsumer(server, "billing").open(timeout_s=1)': (
        "NothingToRead: it has no topic; call subscribe(topic)"
    ),
    'opened(server, "nowhere")': (
        "TopicNotFound: topic 'nowhere': no broker has it; it is misspelt, or made by its first"
        " message or `create_topic`"
    ),
    'opened("127.0.0.1:1", "orders")': (
        "NoNameServer: no name server answered (cannot connect to 127.0.0.1:1: [Errno 111]"
        " Connection refused): check `name_server` and the network"
    ),
    'producer.send(Message("or ders", b"1"))': (
        "BadArgument: topic 'or ders' may have letters, digits and %|_- only"
    ),
    'producer.send(Message("orders", b"1"), delay=5)': (
        "BadArgument: `delay` has to be a timedelta or a datetime, not 5: for seconds give"
        " timedelta(seconds=5), for a level of the broker delay_level=5"
    ),
    'RetryLater("soon")': "BadArgument: `delay` has to be a timedelta, not 'soon'",
    'admin.progress("typo")': (
        "GroupNotFound: no broker knows a group 'typo': it is misspelt, or no consumer of it was"
        " ever connected; see `groups()`"
    ),
}
CALLER = """
import json, sys
from roquet import Admin, Message, Producer, PushConsumer, RetryLater

def opened(server, topic):
    consumer = PushConsumer(server, "billing", print)
    consumer.subscribe(topic)
    consumer.open(timeout_s=1)

server = sys.argv[1]
with Producer(server, "shop") as producer, Admin(server) as admin:
    said = {}
    for call in json.load(sys.stdin):
        try:
            said[call] = repr(eval(call))
        except Exception as error:
            said[call] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""


@pytest.fixture(scope="session")
def mistaken(home: Home) -> Home:
    for name, text in FILES.items():
        (home.directory / name).write_text(text)
    (home.directory / "empty").mkdir()
    return home


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistyped_command_is_reported_in_one_line(mistaken: Home, command: str) -> None:
    finished = mistaken.run(command)
    assert finished.exit_code == 1
    assert finished.stderr.splitlines()[-1] == COMMANDS[command]
    assert "Traceback" not in finished.stderr


def test_a_port_that_is_taken_is_named(home: Home, cluster: Cluster) -> None:
    port = cluster.name_server.rpartition(":")[2]
    finished = home.run(f"roquet up --name-server-port {port}")
    assert finished.exit_code == 1
    assert finished.stderr.splitlines()[-1] == (
        f"roquet up: another process listens on 127.0.0.1:{port}; use another port, or 0 for any"
    )


def test_a_wildcard_is_nothing_to_advertise(home: Home) -> None:
    finished = home.run("roquet up --advertise 0.0.0.0")
    assert finished.exit_code == 2
    assert finished.stderr.splitlines()[-1] == (
        "roquet up: error: argument --advertise: '0.0.0.0' is not a host that clients can connect"
        " to"
    )


def test_a_broken_state_file_is_kept_and_reported(home: Home, tmp_path: Path) -> None:
    with home.running(f"roquet up --dir {tmp_path} --name-server-port 0 --broker-port 0") as up:
        up.wait_for("ready ")
        assert up.stop() == 0
    config = tmp_path / "broker-a" / "config"
    for path in config.glob("topics.json*"):
        path.unlink()
    (config / "topics.json").write_text('{"topicConfigTable":{')
    with home.running(f"roquet up --dir {tmp_path} --name-server-port 0 --broker-port 0") as up:
        up.wait_for("starting without topics.json, kept as topics.json.damaged: ")
        up.wait_for("ready ")
        assert up.stop() == 0


def test_a_wrong_call_says_what_is_expected(home: Home, cluster: Cluster) -> None:
    (home.directory / "caller.py").write_text(CALLER)
    (home.directory / "calls.json").write_text(json.dumps(list(CALLS)))
    finished = home.run(f"python caller.py {cluster.name_server} < calls.json")
    assert finished.exit_code == 0, finished.stderr
    assert json.loads(finished.stdout) == CALLS
