"""`roquet broker`: its properties file, what it says of it, and what it keeps of changes to it."""

from pathlib import Path

import pytest

from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.properties_text import read_properties_text
from tests.support.blocking_peer import BlockingPeer
from tests.support.command_line import roquet
from tests.support.our_cluster import OurBroker


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("aclEnable=TRUE\n", "aclEnable needs a file of accounts: set aclFile"),
        ("aclEnable=yes\n", "aclEnable='yes': expected true or false"),
        ("authenticationEnabled=yes\n", "authenticationEnabled='yes': expected true or false"),
        ("authorizationEnabled=true\n", "authorizationEnabled needs authenticationEnabled=true"),
        ("initAuthenticationUser=ann\n", "initAuthenticationUser"),
        ("tlsEnable=true\n", "tlsEnable=true is not supported"),
        ("tls.server.mode=enforced\n", "tls.server.mode='enforced': expected disabled or"),
        ("tls.server.certPath=nowhere.pem\n", "TLS cannot use certificate nowhere"),
        ("inSyncReplicas=2\n", "inSyncReplicas=2 is not supported"),
        ("listenPort=many\n", "listenPort='many': expected a number"),
    ],
)
def test_what_cannot_be_obeyed_is_one_line_and_no_traceback(
    tmp_path: Path, content: str, complaint: str
) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(content)
    result = roquet("broker", "-c", file, "--dir", tmp_path / "store")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"roquet broker: {complaint}")
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "store").exists()


def test_a_directory_with_queues_of_batches_is_left_alone(tmp_path: Path) -> None:
    topics = tmp_path / "config" / "topics.json"
    topics.parent.mkdir()
    topics.write_text(
        '{"topicConfigTable":{"heaps":{"topicName":"heaps","attributes":'
        '{"queue.type":"BatchCQ"}}},"dataVersion":{"counter":1,"timestamp":1}}'
    )
    result = roquet("broker", "--dir", tmp_path, "--port", 0)
    assert result.exit_code == 1
    assert result.stderr == (
        "roquet broker: topic 'heaps': queue.type=BatchCQ (queues of another kind) "
        "is not supported: use queue.type=SimpleCQ, or leave the topic to Apache's broker\n"
    )


def test_an_advertised_host_is_not_listened_on(tmp_path: Path) -> None:
    # Of a network for examples: this machine could not listen there.
    with OurBroker(tmp_path, configuration={"brokerIP1": "198.51.100.7"}) as broker:
        port = broker.address.rpartition(":")[2]
        assert settings_of(broker)["brokerIP1"] == "198.51.100.7"
    printed = broker.log_tail()
    assert f"serves at 127.0.0.1:{port}, advertised as 198.51.100.7:{port}\n" in printed
    assert "listening on loopback only, but 198.51.100.7" in printed


def settings_of(broker: OurBroker) -> dict[str, str]:
    with BlockingPeer(broker.address) as peer:
        return read_properties_text(peer.call(RequestCode.GET_BROKER_CONFIG).body)


@pytest.mark.slow
def test_a_change_at_run_time_survives_until_the_file_says_something_new(tmp_path: Path) -> None:
    changes = b"fileReservedTime=24\ntransactionCheckMax=3\n"
    broker = OurBroker(tmp_path, configuration={"fileReservedTime": "48"})
    broker.start()
    try:
        with BlockingPeer(broker.address) as peer:
            reply = peer.call(RequestCode.UPDATE_BROKER_CONFIG, body=changes)
            assert reply.code == ResponseCode.SUCCESS
    finally:
        broker.kill()  # What was acknowledged is safe.
    with OurBroker(tmp_path, configuration={"fileReservedTime": "48"}) as broker:
        settings = settings_of(broker)
        assert (settings["fileReservedTime"], settings["transactionCheckMax"]) == ("24", "3")
    assert "fileReservedTime=24: set at run time" in broker.log_tail()
    with OurBroker(tmp_path, configuration={"fileReservedTime": "12"}) as broker:
        settings = settings_of(broker)
        assert (settings["fileReservedTime"], settings["transactionCheckMax"]) == ("12", "3")
    assert "fileReservedTime=12: the configured value has changed" in broker.log_tail()


def test_what_is_not_obeyed_is_named_once(tmp_path: Path) -> None:
    configuration = {"sendMessageThreadPoolNums": "4", "noSuchThing": "1", "traceOn": "yes"}
    with OurBroker(tmp_path, configuration=configuration) as broker:
        pass
    printed = broker.log_tail()
    assert (
        "without effect: sendMessageThreadPoolNums; unknown, possibly misspelled: noSuc" in printed
    )
    assert "read as false, as Java does: traceOn" in printed
    assert "none is named in namesrvAddr" in printed
    # How full the disk of this machine is does not matter here.
    warnings = [line for line in printed.splitlines() if "WARNING" in line]
    assert len([line for line in warnings if "of the disk" not in line]) == 3


def test_a_new_store_that_does_not_fit_its_disk_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    # No disk has 128 gigabytes in its first percent.
    file.write_text("diskSpaceWarningLevelRatio=1\nmappedFileSizeCommitLog=2147483647\n")
    result = roquet("broker", "-c", file, "--dir", tmp_path / "store", "--processes", 64)
    assert result.exit_code == 1
    assert result.stderr.startswith("roquet broker: there is no room for a new store on the disk")
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
def test_what_the_files_will_take_is_reported_at_the_start(tmp_path: Path) -> None:
    with OurBroker(tmp_path) as broker:
        assert "the log grows by files of 8.0 MB, " in broker.log_tail()
        assert "the first one takes 8.0 MB now." in broker.log_tail()
