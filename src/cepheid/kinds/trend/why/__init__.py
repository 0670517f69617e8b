"""Why a pattern has no or few matches: its prefixes, and what it finds without one condition."""
