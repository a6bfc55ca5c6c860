"""Tables of the store of a server: submissions, commits, lists of pools."""

from statistics import median

from bench import store
from bench.section import Cell, Section, ms, verdict


def submissions(runs: int) -> Section:
    section = Section("store_submit", "submissions a second over HTTP, each stored before it is answered")
    for rate in store.submissions(min(runs, 3)):
        row: dict[str, Cell] = {
            "store": rate.store,
            "clients": rate.clients,
            "a second, best": rate.each / rate.times.least,
        }
        row |= {"median": rate.each / rate.times.median, "normalised": rate.each / rate.times.normalised}
        section.table.append(row | {"ms each": ms(rate.times.median) * rate.clients / rate.each})
    return section


def commits(runs: int) -> Section:
    about = "one cycle admits as many; storing: its commits alone; ms of this process's processor"
    section = Section("store_commit", about)
    for cycle in store.commits(min(runs, 3)):
        whole = ms(cycle.whole.least)
        row: dict[str, Cell] = {"store": cycle.store, "admissions": cycle.admissions}
        row |= {"reference": store.COMMIT_REFERENCE_MS[cycle.store], "min": whole}
        row |= {"median": ms(cycle.whole.median), "normalised": ms(cycle.whole.normalised)}
        row |= {"storing": ms(median(cycle.storing)), "target": store.COMMIT_TARGET_MS}
        section.table.append(row | {"is": verdict(whole <= store.COMMIT_TARGET_MS)})
    return section


def groups(runs: int) -> Section:
    section = Section(
        "store_group", "submissions that are stored together; ms of this process's processor in the store"
    )
    for group in store.groups(min(runs, 5)):
        row: dict[str, Cell] = {"store": group.store, "together": group.together, "commit": ms(group.times.least)}
        row |= {"each": ms(group.times.least) / group.together}
        section.table.append(row | {"each, normalised": ms(group.times.normalised) / group.together})
    return section


def pool_lists(runs: int) -> Section:
    about = f"over HTTP, ms; {store.PARENTS * store.SUBPOOLS_EACH:,} subpools, {store.FINISHED:,} finished workflows"
    section = Section("store_pool_list", about)
    for listed in store.pool_lists(max(20, runs)):
        middle = ms(listed.times.median)
        row: dict[str, Cell] = {
            "store": listed.store,
            "list": listed.what,
            "kB": listed.answer // 1000,
            "median": middle,
        }
        row |= {"min": ms(listed.times.least), "normalised": ms(listed.times.normalised)}
        row |= {"target": store.POOL_LIST_TARGET_MS}
        section.table.append(row | {"is": verdict(middle <= store.POOL_LIST_TARGET_MS)})
    return section
