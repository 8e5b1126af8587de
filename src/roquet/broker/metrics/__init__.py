"""What a broker tells those who watch it: a module for each part of it, `observed` for all.

Names and labels are those of Apache 5.x where it has them, and begin with rocketmq_; what is ours
begins with roquet_. Everything is read from numbers that are there anyway, when somebody asks.
"""
