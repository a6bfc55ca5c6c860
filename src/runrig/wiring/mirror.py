"""The mirror's process: `python -m runrig.wiring.mirror DESCRIPTOR`."""

import json
import socket
import sys
from functools import partial

from runrig.domain.errors import RunrigError
from runrig.ports.backend import Backend
from runrig.service.mirror.answering import Answering
from runrig.service.mirror.mirror import Mirror
from runrig.service.mirror.replica import Replica
from runrig.service.runtime import logs
from runrig.store import SqlStore

_LONGEST_SETTINGS = 65536


def mirror_of(database: str, backend: Backend) -> Mirror:
    """Returns a mirror of the server on *database*, a URL or the path of a file."""
    settings: dict[str, str | bool] = {
        "database": database,
        "fixed_nodes": backend.fixed_nodes,
        "topology": backend.topology,
    }
    return Mirror([sys.executable, "-m", "runrig.wiring.mirror"], settings)


def main() -> None:
    door = socket.socket(fileno=int(sys.argv[1]))
    settings = json.loads(door.recv(_LONGEST_SETTINGS))
    replica = Replica(
        partial(SqlStore.look, settings["database"]),
        fixed_nodes=settings["fixed_nodes"],
        topology=settings["topology"],
    )
    try:
        Answering(door, replica).run()
    except RunrigError as error:
        sys.exit(logs.line("mirror_stopped", error=error.message))


if __name__ == "__main__":
    main()
