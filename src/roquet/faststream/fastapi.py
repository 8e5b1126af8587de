"""FastStream's router for FastAPI: handlers with the dependencies of FastAPI.

    router = RocketApiRouter("127.0.0.1:9876")
    app = FastAPI()
    app.include_router(router)

It is a module of its own because it alone imports FastAPI.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from fastapi.datastructures import Default
from faststream._internal.fastapi.router import StreamRouter

from roquet.faststream.broker import RocketBroker
from roquet.faststream.endpoints import RocketPublisher
from roquet.faststream.messages import Delivered

H = TypeVar("H", bound=Callable[..., Any])

_NO_MODEL: Final = Default(None)


class RocketApiRouter(StreamRouter[Delivered]):
    """Starts and stops with the lifespan of the application; `options` are those of FastAPI's
    `APIRouter` and of `RocketBroker`."""

    broker_class = RocketBroker
    broker: RocketBroker

    def __init__(self, name_server: str | None = None, **options: Any) -> None:
        options.setdefault("context", None)
        super().__init__(name_server, **options)

    def subscriber(  # type: ignore[override]
        self,
        topic: str,
        *,
        group: str,
        tags: str | Iterable[str] | None = None,
        dependencies: Sequence[Any] = (),
        response_model: Any = _NO_MODEL,
        **options: Any,
    ) -> Callable[[H], H]:
        """As `RocketBroker.subscriber`."""
        subscriber: Any = super().subscriber(
            topic,
            group=group,
            tags=tags,
            dependencies=dependencies,
            response_model=response_model,
            response_model_include=options.pop("response_model_include", None),
            response_model_exclude=options.pop("response_model_exclude", None),
            response_model_by_alias=options.pop("response_model_by_alias", True),
            response_model_exclude_unset=options.pop("response_model_exclude_unset", False),
            response_model_exclude_defaults=options.pop("response_model_exclude_defaults", False),
            response_model_exclude_none=options.pop("response_model_exclude_none", False),
            **options,
        )
        return subscriber  # type: ignore[no-any-return]

    def publisher(self, topic: str, **options: Any) -> RocketPublisher:  # type: ignore[override]
        """As `RocketBroker.publisher`."""
        return self.broker.publisher(topic, **options)
