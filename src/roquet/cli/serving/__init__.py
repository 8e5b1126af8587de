"""Running servers for `roquet up`, `namesrv` and `broker`: shared options, logging, processes.

`options` are the options that servers share, `broker_process` runs one broker or a group of them,
`up_cluster` and `up_failover` a whole cluster. Commands that only talk to a server load none of it.
"""
