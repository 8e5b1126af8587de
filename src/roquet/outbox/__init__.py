"""The transactional outbox: messages are rows of the transaction they belong to, and a relay sends
them afterwards.

    from roquet.outbox.relay import OutboxRelay
    from roquet.outbox.sql_outbox import SqlOutbox      # extra `sqlalchemy`
    INSTALLED_APPS = [..., "roquet.outbox.django"]      # extra `django`

`rows` is what both have in common. Nothing else imports SQLAlchemy and Django.
"""
