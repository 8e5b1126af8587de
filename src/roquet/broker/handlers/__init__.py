"""One function per request of clients, tools and slaves; each module ends in its table.

A handler answers at once, or raises `Refused`. What has to wait is deferred: pulls by
`messages/long_polling`, sends by `messages/acks`, everything else by `answers`.
"""

from roquet.broker.handlers import (
    accounts,
    assignments,
    clients,
    offsets,
    popping,
    progress,
    reading,
    relays,
    roles,
    runtime,
    sending,
    topics,
    transactions,
    users,
)

ROUTES = (
    *sending.ROUTES,
    *reading.ROUTES,
    *popping.ROUTES,
    *assignments.ROUTES,
    *clients.ROUTES,
    *offsets.ROUTES,
    *relays.ROUTES,
    *progress.ROUTES,
    *topics.ROUTES,
    *transactions.ROUTES,
    *runtime.ROUTES,
    *accounts.ROUTES,
    *users.ROUTES,
    *roles.ROUTES,
)
