"""A client of etcd's JSON gateway over HTTP or HTTPS: as much of it as a master needs.

One server after the other is asked until one answers. The outcome of a change without a reply is
not known: it may still happen.
"""

import base64
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, final

import aiohttp

from roquet.broker.replication.failover.records import KeyValue
from roquet.errors import RoquetError
from roquet.net.tls.contexts import ClientTls

_OK: Final = 200
# By a part of what is wrong, the first that fits.
_REMEDIES: Final = {
    "certificate is not valid for": "its certificate must be for the host in replication.etcd",
    "CERTIFICATE_VERIFY_FAILED": "replication.etcdTrustCertPath must name who signed it",
    "database space exceeded": (
        "etcd is full and takes no leases: compact and defragment it, then disarm its alarm; see"
        " docs/replication.md"
    ),
    "_ALERT_": "replication.etcdCertPath must name a certificate that etcd accepts",
}


class EtcdError(RoquetError):
    """No server of etcd has answered, or none with a valid response."""


class Found(NamedTuple):
    revision: int
    entries: list[KeyValue]


class Created(NamedTuple):
    """A condition: the key was made at this revision; 0 for a key that is not there."""

    key: str
    revision: int


class Modified(NamedTuple):
    """The same, of its last change."""

    key: str
    revision: int


class Put(NamedTuple):
    key: str
    value: bytes
    lease_id: int = 0


class Delete(NamedTuple):
    key: str


@final
class Etcd:
    """Belongs to the event loop; `close` ends its connections. Every question raises EtcdError."""

    def __init__(
        self, servers: Sequence[str], timeout_s: float, tls: ClientTls | None = None
    ) -> None:
        """`servers` are "host:port", or the same after "https://" with `tls`."""
        self._servers = list(servers)
        self._tls = tls
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=timeout_s), raise_for_status=False
        )

    async def close(self) -> None:
        await self._session.close()

    async def find(self, prefix: str) -> Found:
        """What is below a prefix, as the majority of etcd's servers has it."""
        # The first key after all that start with the prefix, which ends in a slash.
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        answer = await self._ask("kv/range", {"key": _packed(prefix), "range_end": _packed(end)})
        try:
            entries = [_entry(each) for each in answer.get("kvs", ())]
        except (KeyError, ValueError):
            raise EtcdError(f"invalid response, entries are missing: {answer}") from None
        return Found(_revision(answer), entries)

    async def change(
        self, conditions: Iterable[Created | Modified], actions: Iterable[Put | Delete]
    ) -> int | None:
        """All of the actions if all conditions hold, and at which revision; else None."""
        request = {
            "compare": [_condition(each) for each in conditions],
            "success": [_action(each) for each in actions],
        }
        answer = await self._ask("kv/txn", request)
        return _revision(answer) if answer.get("succeeded") else None

    async def grant(self, ttl_s: int) -> int:
        """The id of a new lease."""
        answer = await self._ask("lease/grant", {"TTL": ttl_s})
        try:
            return int(answer["ID"])
        except (KeyError, ValueError):
            raise EtcdError(f"invalid response, the lease has no id: {answer}") from None

    async def keep_alive(self, lease_id: int) -> int:
        """For how many seconds, from when it was answered; 0 if the lease has ended."""
        answer = await self._ask("lease/keepalive", {"ID": lease_id})
        return int(answer.get("result", {}).get("TTL", 0))

    async def revoke(self, lease_id: int) -> None:
        await self._ask("lease/revoke", {"ID": lease_id})

    async def _ask(self, what: str, request: dict[str, Any]) -> dict[str, Any]:
        failures = []
        for server in tuple(self._servers):
            place = server if "://" in server else f"http://{server}"
            tls = True if self._tls is None else self._tls.context
            try:
                async with self._session.post(f"{place}/v3/{what}", json=request, ssl=tls) as reply:
                    answer = await reply.json(content_type=None)
                    if reply.status == _OK and isinstance(answer, dict):
                        return answer
                    failures.append(f"{server}: {_with_remedy(str(answer))}")
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                failures.append(f"{server}: {_reason(error)}")
            # Next time the others are asked first.
            self._servers.remove(server)
            self._servers.append(server)
        raise EtcdError("; ".join(failures))


def _reason(error: Exception) -> str:
    return _with_remedy(str(error) or type(error).__name__)


def _with_remedy(text: str) -> str:
    remedy = next((remedy for part, remedy in _REMEDIES.items() if part in text), None)
    return text if remedy is None else f"{text}; {remedy}"


def _entry(found: dict[str, Any]) -> KeyValue:
    return KeyValue(
        base64.b64decode(found["key"]).decode(),
        base64.b64decode(found.get("value", "")),
        int(found["create_revision"]),
        int(found["mod_revision"]),
    )


def _packed(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    return base64.b64encode(data).decode()


def _revision(answer: dict[str, Any]) -> int:
    try:
        return int(answer["header"]["revision"])
    except (KeyError, TypeError, ValueError):
        raise EtcdError(f"invalid response, no revision: {answer}") from None


def _condition(condition: Created | Modified) -> dict[str, Any]:
    is_created = isinstance(condition, Created)
    name = "create_revision" if is_created else "mod_revision"
    return {
        "key": _packed(condition.key),
        "target": "CREATE" if is_created else "MOD",
        "result": "EQUAL",
        name: condition.revision,
    }


def _action(action: Put | Delete) -> dict[str, Any]:
    if isinstance(action, Delete):
        return {"request_delete_range": {"key": _packed(action.key)}}
    put = {"key": _packed(action.key), "value": _packed(action.value), "lease": action.lease_id}
    return {"request_put": put}
