"""Why two sides do not come to encrypt: OpenSSL's reasons, and what has to be done about them."""

import ssl
from enum import Enum
from typing import Final


class TlsSide(Enum):
    """Who says it. Who calls may be a server or a client, so remedies name the settings of both."""

    CALLING = "calling"
    ANSWERING = "answering"


def tls_failure(error: ssl.SSLError, side: TlsSide) -> str:
    """What to say of the peer after "it" or a colon. For people, in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why = error.verify_message.rstrip(".")
        return f"certificate verify failed: {why}; {_remedy(error.verify_code, side)}"
    reason = error.reason or str(error)
    for part, meaning in _MEANINGS[side].items():
        if part in reason:
            return f"{meaning} ({reason})"
    return f"no TLS with it: {reason}"


# Codes of X509_V_ERR_* in OpenSSL's x509_vfy.h.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_OTHER_HOST: Final = (62, 64)

_SIGNERS: Final = {
    TlsSide.CALLING: (
        "name who signed it in tls.client.trustCertPath, or a client's TlsConfig.ca_file"
    ),
    TlsSide.ANSWERING: "name who signed it in tls.server.trustCertPath",
}


def _remedy(verify_code: int, side: TlsSide) -> str:
    if verify_code in (_NOT_YET_VALID, _EXPIRED):
        return "it needs a new one, or one of the two clocks is wrong"
    if verify_code in _OTHER_HOST:
        return "it needs one for the host that it was called by"
    return _SIGNERS[side]


_NOT_TAKEN_THERE: Final = (
    "it does not take our certificate, or wants one: tls.client.certPath, or a client's"
    " TlsConfig.cert_file, has to name one that its tls.server.trustCertPath vouches for"
)
_SERVER_NOT_TAKEN: Final = (
    "it does not take our certificate: its tls.client.trustCertPath, or TlsConfig.ca_file, has to"
    " name who signed that"
)

# By a part of OpenSSL's reason: alerts are the word of the other side.
_MEANINGS: Final[dict[TlsSide, dict[str, str]]] = {
    TlsSide.CALLING: {
        "ALERT_UNKNOWN_CA": _NOT_TAKEN_THERE,
        "ALERT_CERTIFICATE": _NOT_TAKEN_THERE,
        "ALERT_BAD_CERTIFICATE": _NOT_TAKEN_THERE,
        # How servers of TLS 1.2 ask for a certificate that they did not get.
        "ALERT_HANDSHAKE_FAILURE": _NOT_TAKEN_THERE,
        "WRONG_VERSION_NUMBER": "it does not speak TLS",
    },
    TlsSide.ANSWERING: {
        "ALERT_UNKNOWN_CA": _SERVER_NOT_TAKEN,
        "ALERT_CERTIFICATE": _SERVER_NOT_TAKEN,
        "ALERT_BAD_CERTIFICATE": _SERVER_NOT_TAKEN,
        "PEER_DID_NOT_RETURN_A_CERTIFICATE": (
            "it shows no certificate: a broker needs tls.client.certPath, a client"
            " TlsConfig.cert_file"
        ),
    },
}
