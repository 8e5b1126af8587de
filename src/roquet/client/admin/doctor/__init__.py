"""Why can messages not be sent or consumed?

The modules of this package have the findings about servers, topics and groups: what is wrong and
what the remedy is. `examination` asks the cluster for what they decide about.
"""
