"""State of the broker, pure: nothing here knows a `Broker`, a socket or a handler."""
