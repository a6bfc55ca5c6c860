"""The server itself."""

from datetime import datetime

from runrig.wire.base import example
from runrig.wire.v1.base import Shown


class Version(Shown):
    model_config = example({"version": "0.1.0"})

    version: str


class ClusterFile(Shown):
    """YAML.  Pools that are not ACTIVE are not in it; nodes and backend, which are fixed after start, are not either."""

    model_config = example({"file": "pools:\n- name: vision\n  quota: {default: {gpu: {nominal: 8}}}\n"})

    file: str


class ClockAccepted(Shown):
    """The server's time before and after the machine's clock was accepted.  *doubt*: why it was not believed; null: it was."""

    model_config = example(
        {
            "before": "2026-01-31T12:00:00Z",
            "now": "2026-01-31T13:30:00Z",
            "doubt": "the machine's clock is 90.0 minutes ahead of the server's time",
        }
    )

    before: datetime
    now: datetime
    doubt: str | None
