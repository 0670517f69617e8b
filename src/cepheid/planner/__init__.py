"""From tree and schema to a plan, with a reason for every choice."""
