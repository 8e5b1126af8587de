"""How bodies become columns of a lake: JSON, Avro, Protobuf, and schemas from a registry.

    bodies --BodyDecoder.decode--> rows with columns, and rows for the quarantine with their reason

Duty: which columns a lake has, how they evolve, and how a body is decoded into them. A `BodySchema`
has all that: it is stored with the lake, and sent to tasks, so that tasks ask no registry. What a
task cannot decode because its schema is not there yet is reported to the driver, which asks the
registry and plans again.
Dependencies: `body_schema.py` is the value, `written_bodies.py` its decoder, by `avro_bodies.py`
and `protobuf_bodies.py`, which load their libraries when they are used. `choosing.py` is what the
driver does, by the arguments of a command and by `registry.py`. `evolution.py` is pure.
"""
