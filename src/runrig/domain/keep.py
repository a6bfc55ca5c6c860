"""The value of a field that an edit does not mention: it stays, while None removes what is there."""

import enum


class Keep(enum.Enum):
    KEEP = "keep"


KEEP = Keep.KEEP
