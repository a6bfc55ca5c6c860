"""The columns of usage compared with the gangs themselves, after random histories and what-if runs."""

import pytest

from runrig.domain.plan import Release
from runrig.domain.quantities import CPU, GPU
from runrig.engine.foresight.on_trial import OnTrial
from runrig.engine.ledger.ledger import Ledger
from runrig.engine.ledger.queue import Entry
from tests.engine.scheduling.test_sleeping import History, cycle
from tests.exploring import tries

pytestmark = pytest.mark.explored


def most_s(workflow: str) -> float | None:
    """Two of three have a limit."""
    number = sum(map(ord, workflow)) % 3
    return 10.0 * number if number else None


def end(entry: Entry) -> tuple[float, float, str]:
    assert entry.admitted_at is not None
    most = most_s(entry.gang.workflow)
    return (float("inf") if most is None else entry.admitted_at + most, entry.admitted_at, entry.gang.workflow)


def compared(ledger: Ledger) -> int:
    """The number of gangs that use something."""
    columns, topology = ledger.holdings, ledger.nodes.topology(("rack",))
    columns.refresh(most_s)
    gangs = [columns.entries[slot] for slot in columns.order]
    assert {each.gang.id for each in gangs} == {name for name, each in ledger.entries.items() if each.held}
    assert [end(each) for each in gangs] == sorted(end(each) for each in gangs)
    pools, requests = list(columns.pools), list(columns.requests)
    assert [pools[number] for number in columns.pool[columns.order]] == [each.gang.pool for each in gangs]
    assert [requests[number] for number in columns.request[columns.order]] == [each.request for each in gangs]
    assert [columns.names[number] for number in columns.workflow[columns.order]] == [
        each.gang.workflow for each in gangs
    ]
    assert columns.firm[columns.order].tolist() == [each.bucket.firm for each in gangs]
    stops = [each for each in gangs if each.gang.id in ledger.stopping]
    assert columns.among(stops)[columns.order].tolist() == [each in stops for each in gangs]
    last = {each.gang.workflow: end(each) for each in gangs}
    mine = gangs[0].gang.workflow if gangs else ""
    in_order = [columns.names[number] for number in columns.workflows(without=mine)]
    assert in_order == sorted(last.keys() - {mine}, key=last.__getitem__)
    held = columns.held(columns.order, (CPU, GPU), topology, topology.whole(labelled=False))
    rows = zip(held.who, held.node, held.amounts[CPU], held.amounts[GPU], strict=True)
    assert sorted((gangs[who].gang.id, topology.names[node], cpu, gpu) for who, node, cpu, gpu in rows) == sorted(
        (each.gang.id, share.node, *(dict(pods.requests).get(what, 0) * share.count for what in (CPU, GPU)))
        for each in gangs
        for place, pods in zip(each.placement, each.gang.pod_sets, strict=True)
        for share in place.shares
        if share.node in topology.index
    )
    return len(gangs)


@pytest.mark.parametrize("first", range(0, tries(20), 5))
def test_columns_match_the_usage_of_gangs(first: int) -> None:
    held = 0
    for seed in range(first, first + 5):
        history = History(seed)
        for _ in range(12):
            for _ in range(4):
                history.something_happens()
            history.now += 1
            cycle(history.ledger, history.now)
            held += compared(history.ledger)
    assert held


@pytest.mark.parametrize("seed", range(tries(10)))
def test_a_gang_ended_in_a_what_if_run_keeps_its_slot(seed: int) -> None:
    """If all gangs were added again in a fork, it would copy the memory that it shares with the mirror."""
    history = History(seed)
    ledger = history.ledger
    for _ in range(40):
        history.something_happens()
    cycle(ledger, 1.0)
    compared(ledger)
    ledger.candidates.refresh()
    slots, preemptible = dict(ledger.holdings.slots), dict(ledger.candidates.slots)
    with OnTrial(ledger, 2.0, cycles=False) as trial:
        for entry in list(slots)[::2]:
            trial.apply(Release(entry.gang.id))
        assert compared(ledger) == len(slots) // 2
    assert ledger.holdings.slots == slots
    assert ledger.candidates.slots == preemptible
    assert ledger.candidates.refresh() == 0
    with OnTrial(ledger, 2.0) as trial:
        for entry in list(slots)[::2]:
            trial.apply(Release(entry.gang.id))
        for _ in trial.cycle():
            pass
        compared(ledger)
    assert compared(ledger) == len(slots)
