"""Kueue's manifests → values: what `simulate` reads, with a warning for everything that it does not honour."""

from runrig.spec.kueue.manifests import LARGEST_FILE, Manifests, read_manifests

__all__ = ["LARGEST_FILE", "Manifests", "read_manifests"]
