"""The value of a field that an edit leaves unchanged, while None clears the field."""

import enum


class Keep(enum.Enum):
    KEEP = "keep"


KEEP = Keep.KEEP
