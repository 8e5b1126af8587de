"""Brokers of ours that show a certificate."""

from pathlib import Path

from tests.support.certificates import Authority, Holder
from tests.support.our_cluster import OurBroker


def broker_showing(directory: Path, names: str, holder: Holder, authority: Authority) -> OurBroker:
    """One that only encrypts, and trusts the authority."""
    configuration = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": str(holder.certificate),
        "tls.server.keyPath": str(holder.key),
        "tls.enable": "true",
        "tls.client.trustCertPath": str(authority.certificate),
    }
    return OurBroker(directory, names, configuration=configuration)
