"""The dump that is measured is one that `simulate` reads whole."""

from bench.dumps import dump

from runrig.kueue.read import read_manifests


def test_dump_is_read_without_a_warning() -> None:
    found = read_manifests(dump(30), "dump.json")
    assert (len(found.system.workloads), found.warnings) == (30, ())
    assert sum(each.granted is not None for each in found.system.workloads) == 10
