"""Tables of placements: for one gang, for many, by preemption, with fewer pods, and why there is none."""

from collections.abc import Sequence
from statistics import median

from bench import racks, reference, topology
from bench.section import Cell, Section, ms, verdict


def places(runs: int) -> Section:
    section = Section(
        "T1",
        f"a place for one gang on {racks.FULL.nodes:,} nodes, against {reference.NAME}, all in ms; targets: each at most "
        f"1/{reference.TARGET_PLACED} of it, in the median 1/{reference.TARGET_PLACED_MEDIAN}; cold: the first call; "
        "lies in: hosts/racks/blocks",
    )
    faster = []
    for name, theirs in reference.PLACED.items():
        found = topology.place(topology.PLACES[name], runs)
        assert found.changed is not None
        row = _beside(name, found, theirs.ms, reference.TARGET_PLACED)
        faster.append(theirs.ms / ms(found.times.least))
        row["after a change"] = ms(found.changed.least)
        few = all(here <= its for here, its in zip(found.used, theirs[1:], strict=True))
        lies = {"lies in": _slashed(found.used), "reference in": _slashed(theirs[1:])}
        section.table.append(row | lies | {"no more": verdict(few and any(found.used) == any(theirs[1:]))})
    part = reference.TARGET_PLACED_MEDIAN
    last: dict[str, Cell] = {"scenario": "median", "times faster": median(faster), "target": f"1/{part}"}
    last["is"] = verdict(median(faster) >= part)
    section.table.append({head: last.get(head, "") for head in section.table[0]})
    return section


def streams(runs: int) -> Section:
    section = Section(
        "T3",
        f"1,000 gangs of 8 nodes each from 100 pools until all are admitted, against {reference.NAME}, all in ms; target: at most "
        f"1/{reference.TARGET_STREAMED} of it",
    )
    for name, theirs in reference.STREAMED.items():
        found = topology.streamed(topology.STREAMS[name], min(runs, 2))
        row = _beside(name, found, theirs, reference.TARGET_STREAMED)
        section.table.append(row | {"lie in": _slashed(found.used)})
    return section


def preemptions(runs: int) -> Section:
    section = Section(
        "T4",
        f"who stops for one HIGH gang on a full cluster, against {reference.NAME}, all in ms; lies in: hosts/racks/blocks",
    )
    for name, theirs in reference.PREEMPTED.items():
        found = topology.preempt(topology.BLOCKED[name], runs)
        row = _beside(name, found, theirs.ms, theirs.target)
        section.table.append(row | {"gangs stop": found.many, "lies in": _slashed(found.used)})
    return section


def fewer_pods(runs: int) -> Section:
    section = Section("T5", f"a cycle that admits fewer pods, in one rack, against {reference.NAME}, all in ms")
    found = topology.fewer(runs)
    row = _beside("512 pods, at least 1", found, reference.FEWER_PODS, reference.TARGET_FEWER_PODS)
    section.table.append(row | {"pods": found.many, "lie in": _slashed(found.used)})
    return section


def _beside(name: str, found: topology.Measured, theirs: float, part: int) -> dict[str, Cell]:
    best = ms(found.times.least)
    return {
        "scenario": name,
        "reference": theirs,
        "min": best,
        "median": ms(found.times.median),
        "times faster": theirs / best,
        "target": f"1/{part}",
        "is": verdict(best * part <= theirs),
        "normalised": ms(found.times.normalised),
        "cold": ms(found.cold),
    }


def _slashed(counts: Sequence[float]) -> str:
    return "/".join(map(str, counts))


def whys(runs: int) -> Section:
    section = Section("why", "why a gang waits that no rack can hold, on 10,000 busy nodes; ms")
    for before in topology.WAITING:
        found = topology.explain(before, runs)
        middle = ms(found.times.median)
        row: dict[str, Cell] = {"waiting before it": before, "median": middle, "min": ms(found.times.least)}
        row |= {"normalised": ms(found.times.normalised), "cold": ms(found.cold), "target": reference.WHY_TARGET}
        row["is"] = verdict(middle <= reference.WHY_TARGET)
        section.table.append(row | {f"aim {reference.WHY_AIM:g}": "met" if middle <= reference.WHY_AIM else "not yet"})
    return section
