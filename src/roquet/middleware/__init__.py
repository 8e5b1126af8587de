"""Middleware that is ready to use: idempotent listeners, a retry policy, a rate limit.

    from roquet.middleware import Idempotent, MemoryStore, RateLimit, RetryPolicy
    from roquet.middleware.sql_store import SqlStore        # extra `sqlalchemy`
    from roquet.middleware.redis_store import RedisStore    # extra `redis`

`Middleware` is the class to write one's own. Stores that need a library of an extra are the only
modules that import it.
"""

from roquet.client.middleware import Middleware
from roquet.middleware.idempotent import (
    AsyncIdempotencyStore,
    IdempotencyStore,
    Idempotent,
    MemoryStore,
    by_key,
    by_message_id,
)
from roquet.middleware.rate_limit import RateLimit
from roquet.middleware.retry_policy import RetryPolicy

__all__ = [
    "AsyncIdempotencyStore",
    "IdempotencyStore",
    "Idempotent",
    "MemoryStore",
    "Middleware",
    "RateLimit",
    "RetryPolicy",
    "by_key",
    "by_message_id",
]
