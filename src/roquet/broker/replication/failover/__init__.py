"""Who is master, decided with the help of etcd: no consensus of our own.

`election` decides and knows no sockets; `records` is what etcd keeps for the brokers of one name;
`etcd` asks it; `member` does what was decided, again and again.
"""
