"""A proxy: the endpoint in front of a cluster, which it talks remoting to, as every client does.

Duty: the methods of the service by requests to name servers and brokers, ours or Apache's. It keeps
nothing that a restart would lose, but which messages it renews for push consumers: receipt handles
and transaction ids contain the place of the message. Imports neither broker nor store.

    cluster         routes, settings of topics and groups, requests; refusals in terms of gRPC
    sending         SendMessage, EndTransaction, RecallMessage; check-backs
    receiving       ReceiveMessage, and what becomes of received messages
    service server  the methods as one service; the port
"""
