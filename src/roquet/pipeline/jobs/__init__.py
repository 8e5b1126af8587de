"""Jobs: what `roquet spark` runs, each of them a function that takes a session and a plan."""
