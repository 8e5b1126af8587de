"""Stories of certificates, accounts and encryption."""

from pathlib import Path

import pytest

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
        # The remedy: new files, which running servers read.
        authority.vouch_for("names")
        authority.vouch_for("broker")
        names.reload()
        broker.reload()
        well = roquet("doctor", "-n", names.address)
        assert (well.exit_code, well.stdout.splitlines()[-1]) == (0, "0 problems, 0 warnings")
