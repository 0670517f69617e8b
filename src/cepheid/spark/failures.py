"""Convert failures of Spark (pages of Java and Python traces) to one diagnostic with the cause."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark.errors import PySparkException

from cepheid.errors import DataError, Diagnostic

FAILURES = (PySparkException, Py4JError)
"""Exceptions of Spark, with a message of its own and without."""

_OURS = re.compile(r"error\[(E\d{3})\]: (.*)")
_HELP = re.compile(r"= help: (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_PLAN = re.compile(r"\n=== Streaming Query ===|\n== \w+ (?:Logical|Physical) Plan ==")
_FILE = re.compile(
    r"\[FAILED_READ_FILE\.\w+\] Encountered error while reading file (\S+)\. (.*?) ?SQLSTATE"
)
_CONNECTOR = re.compile(r'No FileSystem for scheme "?([\w.+-]+)|fs\.(\w+)\.\w+FileSystem not found')
_ABSENT = re.compile(r"ModuleNotFoundError: No module named 'cepheid(?:\.[\w.]*)?'")
_REORDERED = "A shuffle map stage with indeterminate output was failed and retried"
FULL_RETRY = "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch"
"""Spark 4.1 and newer compare what a task writes with what it wrote before; blobs of events depend
on the order of rows, while rows of queries do not."""
_CLASSIFIED = re.compile(r"\[[A-Z][A-Z0-9_.]+\] (.+)")
_RAISED = re.compile(
    r"^\s*(?:Caused by: |: )?(?:[a-z_$][\w$]*\.)*"
    r"([A-Z]\w*(?:Error|Exception|Invalid|NotImplemented|Warning|Exit)): (\S.*)$",
    re.MULTILINE,
)
_ABORTED = re.compile(r"Job aborted due to stage failure: (.+)")
_WRAPPERS = ("Traceback (", "Exception thrown in awaitResult", "Job aborted", "[PYTHON_EXCEPTION]")


@contextlib.contextmanager
def clear_failures() -> Iterator[None]:
    """Convert exceptions of Spark in the body to one diagnostic.

    Raises
    ------
    DataError
        As ``clear_error`` returns it.
    """
    try:
        yield
    except FAILURES as error:
        raise clear_error(error) from error


def clear_error(error: Exception) -> DataError:
    """Convert the failure of a task to one diagnostic, without the Java trace.

    Errors of Cepheid keep their code. E501 is a file that Spark cannot read, E524 a checkpoint,
    E525 a file scheme without a connector, E598 a worker without Cepheid that joined after workers
    were checked, and E523 everything else, with its cause.
    """
    text = str(error)
    found = _OURS.search(text)
    if found is not None:
        helps = tuple(line.strip() for line in _HELP.findall(text[found.start() :])[:1])
        return _diagnosed(found[1], found[2].strip(), *helps)
    if "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY" in text:
        message = "the checkpoint does not fit the query: it was created, but has no micro-batch"
        return _diagnosed("E524", message, "nothing has left yet, so remove it and start again")
    if "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE" in text or "STATE_STORE_SCHEMA" in text:
        message = "the checkpoint does not fit the query: `idle` was switched on or off"
        return _diagnosed("E524", message, "start it as before, or with a new checkpoint")
    if "STATEFUL_OPERATOR_NOT_MATCH" in text or "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE" in text:
        message = "the checkpoint does not fit the query: it holds the state of other operators, "
        message += "of another kind of query or of an earlier version"
        help_ = "start anew, with `cepheid stream --restart-from` or a new checkpoint"
        return _diagnosed("E524", message, help_)
    # Spark repeats its plan at the end, which says nothing of the cause.
    text = _PLAN.split(text)[0]
    unread = _FILE.search(text)
    if unread is not None:
        reason = _sentence(unread[2]) or _raised(text) or "Spark does not say why"
        message = f"could not read `{unread[1]}`: {reason}"
        return _diagnosed("E501", message, "write the file again, or move it away")
    connector = _CONNECTOR.search(text)
    if connector is not None:
        message = f"Spark lacks the connector of `{connector[1] or connector[2]}://`"
        return _diagnosed("E525", message, "name a folder, or add the package that has it")
    if _REORDERED in text:
        message = "Spark failed: executors were lost, and repeated tasks got their rows in another "
        message += "order, which Spark takes for another result"
        return _diagnosed("E523", message, f"cache the DataFrame, or set {FULL_RETRY} to false")
    if _ABSENT.search(text):
        message = "the workers of Spark cannot run queries: one that joined later lacks cepheid"
        help_ = "give every worker a Python that has Cepheid, and set PYSPARK_PYTHON to it, or "
        return _diagnosed("E598", message, f"{help_}send it with `--py-files cepheid.zip`")
    return _diagnosed("E523", f"Spark failed: {_cause(text) or type(error).__name__}")


def _diagnosed(code: str, message: str, *helps: str) -> DataError:
    return DataError([Diagnostic(code, message, helps=helps)])


def _cause(text: str) -> str:
    """Find the root cause; else use Spark's own message, why it gave up, or its first line."""
    classified = [_sentence(one) for one in _CLASSIFIED.findall(text) if not _wraps(one)]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Spark itself gives up, for instance because executors were lost too often.
    aborted = [_sentence(one) for one in _ABORTED.findall(text)]
    known = [_raised(text), *classified[-1:], *aborted[-1:], *lines[:1]]
    return next(filter(None, known), "")


def _raised(text: str) -> str:
    """Find the innermost exception with a message; Java and Python print it last."""
    found = [(kind, one) for kind, one in _RAISED.findall(text) if not _wraps(one)]
    if not found:
        return ""
    kind, message = found[-1]
    return f"{kind}: {_sentence(message)}"


def _wraps(message: str) -> bool:
    """Check whether a message only reports that something else was raised."""
    return message.startswith(_WRAPPERS) or "terminated with exception: [PYTHON_EXC" in message


def _sentence(message: str) -> str:
    """Strip error classes and SQL states from a message of Spark."""
    inner = message.rpartition("terminated with exception: ")[2]
    plain = re.sub(r"^\[[A-Z][A-Z0-9_.]+\] ", "", inner)
    return re.sub(r"\s*SQLSTATE: \w+", "", plain).strip().rstrip(".")
