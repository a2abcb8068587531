"""The names of `cawn.data.seals`."""

from cawn.data.seals import check_seal, checksum, read_json, read_sealed, write_sealed

__all__ = ["check_seal", "checksum", "read_json", "read_sealed", "write_sealed"]
