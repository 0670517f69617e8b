"""What some tests of the cluster need besides: an S3 server, and the client of Spark Connect.

`make cluster-parts` installs both into a folder of their own, since nothing else needs them.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow import fs
from tests.servers import ROOT, free_port, leave_out, wait_for

FOLDER = ROOT / "build" / "cluster"
BUCKET = "events"


def need(package: str) -> None:
    """Leave a test out if a package is missing; on CI it fails."""
    if not (FOLDER / package).is_dir():
        leave_out(f"the package {package} is missing: `make cluster-parts` fetches it")


@contextmanager
def object_store(folder: Path) -> Iterator[dict[str, str]]:
    """Start an S3 server with a bucket; yield the variables by which Arrow finds it."""
    need("moto")
    port = free_port()
    with (folder / "s3.log").open("ab") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            env={"PYTHONPATH": str(FOLDER)},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        wait_for(port, server, folder / "s3.log")
        found = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        maker = fs.S3FileSystem(
            access_key=found["AWS_ACCESS_KEY_ID"],
            secret_key=found["AWS_SECRET_ACCESS_KEY"],
            region=found["AWS_REGION"],
            endpoint_override=found["AWS_ENDPOINT_URL"],
            allow_bucket_creation=True,
        )
        maker.create_dir(BUCKET)
        yield found
    finally:
        server.kill()
        server.wait()
