"""Reads the config file of `runrig serve`, and cluster files; ``-`` is stdin. Imports their rules only when it does."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from runrig.cli.transport.failure import located
from runrig.cli.transport.files import read_text, shown

if TYPE_CHECKING:
    from runrig.domain.cluster import ClusterSpec
    from runrig.spec.serve_settings import ServeSpec


def read_config(name: str) -> "ServeSpec":
    """Raises InvalidInput if it cannot be read or is wrong."""
    from runrig.spec.serve import folder_and_mode, read_serve

    text = read_text(name)
    folder, mode = (Path.cwd(), 0o600) if name == "-" else folder_and_mode(Path(name))
    with located(shown(name)):
        return read_serve(text, folder, os.environ, mode=mode)


def read_cluster_file(name: str) -> "ClusterSpec":
    """Raises InvalidInput if it cannot be read or is wrong."""
    from runrig.spec.cluster import read_cluster

    text = read_text(name)
    with located(shown(name)):
        return read_cluster(text)
