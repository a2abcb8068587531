"""Functions that tests call in other processes."""

import os
import time
from pathlib import Path
from typing import Any

import cawn
from cawn.files import FolderLock
from cawn.studies.jobs import Job, Send


def echo(value: Any, how: str, send: Send) -> Any:
    """Reports and returns a value, or ends in another way."""
    send({"first": value})
    if how == "bug":
        raise ValueError("three\nlines\nlong")
    if how == "refused":
        raise cawn.QueryError("no such thing")
    if how == "killed":
        os.kill(os.getpid(), 9)
    if how == "exit":
        os._exit(3)
    while how == "waits":
        time.sleep(0.01)
    return [value, os.getpid()]


def locked(folder: Path, send: Send) -> None:
    """Returns if no other process has the folder."""
    FolderLock(folder).release()


def echo_job(value: Any, how: str = "", **more: Any) -> Job:
    return Job(str(value), echo, (value, how), **more)
