"""Stories of certificates, accounts and encryption."""

import re
from pathlib import Path

import pytest

from tests.support.accounts import ACCOUNTS, ADMIN, accounts_file
from tests.support.certificates import DAY, Authority
from tests.support.command_line import roquet
from tests.support.our_cluster import OurBroker, OurNameServer

pytestmark = pytest.mark.slow


def test_certificates_are_replaced_before_they_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    authority = Authority(tmp_path)
    soon = authority.vouch_for("names", lifetime=20 * DAY)
    sooner = authority.vouch_for("broker", lifetime=5 * DAY)
    options = ("--tls-cert", str(soon.certificate), "--tls-key", str(soon.key))
    files = {
        "tls.server.certPath": str(sooner.certificate),
        "tls.server.keyPath": str(sooner.key),
    }
    with (
        OurNameServer(tmp_path / "names", *options) as names,
        OurBroker(tmp_path / "broker", names.address, configuration=files) as broker,
    ):
        doctor = roquet("doctor", "-n", names.address)
        assert doctor.exit_code == 1, doctor.stdout
        (problem,) = [line for line in doctor.stdout.splitlines() if line.startswith("problem")]
        assert "broker our-broker" in problem
        assert "its certificate expires at" in problem
        (warning,) = [line for line in doctor.stdout.splitlines() if line.startswith("warning")]
        assert f"name server {names.address}" in warning
        # The remedy: new files, and SIGHUP.
        authority.vouch_for("names")
        authority.vouch_for("broker")
        names.reload()
        broker.reload()
        well = roquet("doctor", "-n", names.address)
        assert (well.exit_code, well.stdout.splitlines()[-1]) == (0, "0 problems, 0 warnings")


def test_the_logs_name_the_account_of_each_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROQUET_ACCESS_KEY", ADMIN.access_key)
    monkeypatch.setenv("ROQUET_SECRET_KEY", ADMIN.secret_key)
    settings = {"aclEnable": "true", "aclFile": str(accounts_file(tmp_path, ACCOUNTS))}
    asked = rf"as account {ADMIN.access_key} at 127\.0\.0\.1:\d+ asked"
    changes = {
        "topic create orders --queues 4": rf"created topic orders, {asked}: .*writeQueueNums=4",
        "topic change orders --queues 8": rf"changed topic orders, {asked}: .*QueueNums 4 -> 8",
        "group create billing": rf"created group billing, {asked}: .*retryMaxTimes=16",
        "group create billing --retries 3": (
            rf"changed group billing, {asked}: retryMaxTimes 16 -> 3"
        ),
        "broker config set our-broker fileReservedTime=12": (
            rf"changed settings, {asked}: fileReservedTime 72 -> 12"
        ),
        "account change publisher --topic bills=PUB": (
            rf"changed account publisher \(.*topic_perms=\[.*'bills=PUB'\].*\), {asked}"
        ),
        "group delete billing --yes": rf"deleted group billing, {asked}",
        "topic delete orders --yes": rf"deleted topic orders, {asked}",
    }
    names = OurNameServer(tmp_path / "names")
    with names, OurBroker(tmp_path / "broker", names.address, configuration=settings) as broker:
        for command, line in changes.items():
            finished = roquet(*command.split(), "-n", names.address)
            assert finished.exit_code == 0, f"{command}: {finished.stderr}"
            assert re.search(line, broker.log_tail()), f"{command}: {broker.log_tail()}"
        # The name server of the test has no accounts, so an address has to do.
        assert "deleted topic orders in all clusters, as 127.0.0.1:" in names.log_tail()
        assert ADMIN.secret_key not in broker.log_tail()
