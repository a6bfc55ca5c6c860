"""Domains as answers."""

from runrig import wire
from runrig.service.queries.topology import (
    DomainGpus,
    DomainReport,
    GangsThatFit,
    Holder,
    LevelReport,
    Map,
    Size,
    UnlabelledNode,
)


def maps(found: tuple[Map, ...], size: Size | None) -> wire.TopologyAnswer:
    asked = None if size is None else wire.GangSizeAnswer(pods=size.pods, gpus=size.gpus)
    return wire.TopologyAnswer(size=asked, maps=[_map(each) for each in found])


def _map(found: Map) -> wire.TopologyMapAnswer:
    report = found.report
    return wire.TopologyMapAnswer(
        pools=list(found.pools),
        keys=list(report.keys),
        flavors=list(report.flavors),
        levels=[_level(level) for level in report.levels],
        all=_domain(report.whole),
        apart=[_apart(each) for each in report.apart],
    )


def _level(level: LevelReport) -> wire.LevelAnswer:
    return wire.LevelAnswer(key=level.key, label=level.label, domains=level.domains, gangs=_gangs(level.gangs))


def _apart(apart: UnlabelledNode) -> wire.ApartAnswer:
    return wire.ApartAnswer(lacks=list(apart.lacks), node=_domain(apart.node))


def _domain(view: DomainReport) -> wire.DomainAnswer:
    gangs, gpus = view.others
    return wire.DomainAnswer(
        level=view.key,
        path=list(view.path),
        state=view.state,
        nodes=view.nodes,
        cordoned_nodes=view.cordoned,
        gpus=_gpus(view.gpus),
        flavors={name: _gpus(each) for name, each in view.flavors.items()},
        gangs=_gangs(view.gangs),
        holders=[_holder(holder) for holder in view.holders],
        others=wire.OthersAnswer(gangs=gangs, gpus=gpus),
        domains=[_domain(each) for each in view.inside],
    )


def _gpus(gpus: DomainGpus) -> wire.DomainGpusAnswer:
    return wire.DomainGpusAnswer(
        total=gpus.total,
        free=gpus.free,
        firm=gpus.firm,
        low=gpus.low,
        changing=gpus.changing,
        cordoned=gpus.cordoned,
    )


def _gangs(fit: GangsThatFit | None) -> wire.DomainGangsAnswer | None:
    return None if fit is None else wire.DomainGangsAnswer(now=fit.now, after_low=fit.after_low, ever=fit.ever)


def _holder(holder: Holder) -> wire.HolderAnswer:
    return wire.HolderAnswer(
        gang=holder.gang,
        pool=holder.pool,
        priority=holder.priority,
        state=holder.state.value,
        pods=holder.pods,
        gpus=holder.gpus,
    )
