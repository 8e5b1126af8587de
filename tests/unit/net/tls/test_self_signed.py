"""Certificates that servers make for themselves."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509

from roquet.net.tls.self_signed import self_signed
from tests.support.fake_clock import START_MS


def test_it_is_for_this_machine_and_for_named_hosts() -> None:
    made = self_signed(["broker.example", "10.0.0.7", "localhost"], START_MS)
    certificate = x509.load_pem_x509_certificate(made.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "broker.example"]
    assert names.get_values_for_type(x509.IPAddress) == [
        ip_address(each) for each in ("127.0.0.1", "::1", "10.0.0.7")
    ]
    now = datetime.fromtimestamp(START_MS / 1000, UTC)
    assert certificate.not_valid_before_utc < now
    assert certificate.not_valid_after_utc > now + timedelta(days=3000)


def test_no_two_have_the_same_key() -> None:
    assert self_signed((), START_MS).key != self_signed((), START_MS).key
