"""Reads Kueue manifests for `simulate`, and warns of everything that has no effect."""

from runrig.kueue.read.manifests import Manifests, read_all, read_manifests
from runrig.kueue.read.texts import LARGEST_JSON, LARGEST_YAML, File

__all__ = ["LARGEST_JSON", "LARGEST_YAML", "File", "Manifests", "read_all", "read_manifests"]
