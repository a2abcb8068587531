"""Files as the publishers of datasets have them."""

import hashlib
import io
import zipfile
from pathlib import Path

from cawn.data.datasets import CATALOG

SNAP = b"1 2 1082040961\n3 4 1082155839\n5 2 1082414391\n"


SNAP_SHA256 = hashlib.sha256(SNAP).hexdigest()


def put(folder: Path, name: str, content: bytes) -> Path:
    """Let a file be the first source of a dataset in the cache, as if it had been downloaded."""
    path = folder / name / CATALOG[name].sources[0].file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def zipped(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()
