"""Plans and columns of events in, result rows out: the engine that runs queries in process."""
