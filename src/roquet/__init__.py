"""RocketMQ in Python, its data pipeline on Spark."""

__version__ = "0.1.0"
