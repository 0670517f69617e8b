"""What kinds with patterns share: names, symbols, and events that every match needs."""
