"""Brokers as operators name them: by name, or by an address of theirs."""

from roquet.cli.operating.commands import Session
from roquet.cli.operating.failures import NOT_FOUND, Failed
from roquet.client.admin.cluster import BrokerInfo


async def brokers_named(session: Session, wanted: str) -> list[BrokerInfo]:
    """Master and slaves of a name, the master first; or the one at an address. Raises Failed."""
    known = await session.admin.brokers(with_state=False)
    found = [each for each in known if wanted in (each.broker_name, each.address)]
    if not found:
        names = ", ".join(sorted({each.broker_name for each in known})) or "none"
        raise Failed(f"no name server knows a broker {wanted!r}; there are: {names}", NOT_FOUND)
    return found


async def broker_name(session: Session, wanted: str | None) -> str | None:
    """Of what was given, if anything was. Raises Failed."""
    return None if wanted is None else (await brokers_named(session, wanted))[0].broker_name
