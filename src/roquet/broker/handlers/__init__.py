"""One function per request of clients, tools and slaves; each module ends in its table.

A handler answers at once, or raises `Refused`. What has to wait is parked: pulls in
`arrivals.py`, sends in `safety.py`, everything else by `deferred.py`.
"""

from roquet.broker.handlers import (
    accounts,
    cleaning,
    clients,
    connections,
    delays,
    groups,
    offsets,
    progress,
    pulling,
    queries,
    relays,
    replicas,
    replies,
    resets,
    retries,
    roles,
    runtime,
    sending,
    topics,
    transactions,
)

ROUTES = (
    *sending.ROUTES,
    *pulling.ROUTES,
    *clients.ROUTES,
    *connections.ROUTES,
    *offsets.ROUTES,
    *resets.ROUTES,
    *relays.ROUTES,
    *replies.ROUTES,
    *queries.ROUTES,
    *progress.ROUTES,
    *topics.ROUTES,
    *transactions.ROUTES,
    *groups.ROUTES,
    *delays.ROUTES,
    *retries.ROUTES,
    *runtime.ROUTES,
    *cleaning.ROUTES,
    *accounts.ROUTES,
    *replicas.ROUTES,
    *roles.ROUTES,
)
