"""A process that does one task: JSON on standard input, JSON on standard output."""

from __future__ import annotations

import os
import sys

import msgspec

from cepheid.decoding import from_json
from cepheid.interfaces.assistant.tasks import Task, do


def main() -> None:
    """Do the task of standard input."""
    out = sys.stdout.buffer
    # What a library prints must not look like an answer.
    sys.stdout = sys.stderr
    task = from_json(sys.stdin.buffer.read(), Task)
    out.write(msgspec.json.encode(do(task)))
    out.flush()
    # Threads that read ahead may still be at work, and nobody waits for them.
    os._exit(0)


if __name__ == "__main__":
    main()
