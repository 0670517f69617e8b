"""Discovery: which rules hold in a log of events, and which tell two groups of cases apart."""
