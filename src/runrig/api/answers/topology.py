"""Domains as answers."""

from runrig import wire
from runrig.service.queries.topology import Apart, Fit, Gpus, Holder, Level, Map, Size, View


def maps(found: tuple[Map, ...], size: Size | None) -> wire.TopologyAnswer:
    asked = None if size is None else wire.GangSizeAnswer(pods=size.pods, gpus=size.gpus)
    return wire.TopologyAnswer(size=asked, maps=[_map(each) for each in found])


def _map(found: Map) -> wire.TopologyMapAnswer:
    survey = found.survey
    return wire.TopologyMapAnswer(
        pools=list(found.pools),
        keys=[wire.TopologyKeyModel(key=each.key, label=each.label) for each in survey.keys],
        flavors=list(survey.flavors),
        levels=[_level(each) for each in survey.levels],
        all=_domain(survey.whole),
        apart=[_apart(each) for each in survey.apart],
    )


def _level(level: Level) -> wire.LevelAnswer:
    return wire.LevelAnswer(key=level.key, label=level.label, domains=level.domains, gangs=_gangs(level.gangs))


def _apart(apart: Apart) -> wire.ApartAnswer:
    return wire.ApartAnswer(lacks=list(apart.lacks), node=_domain(apart.node))


def _domain(view: View) -> wire.DomainAnswer:
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
        holders=[_holder(each) for each in view.holders],
        others=wire.OthersAnswer(gangs=gangs, gpus=gpus),
        domains=[_domain(each) for each in view.inside],
    )


def _gpus(gpus: Gpus) -> wire.DomainGpusAnswer:
    return wire.DomainGpusAnswer(
        total=gpus.total,
        free=gpus.free,
        firm=gpus.firm,
        low=gpus.low,
        changing=gpus.changing,
        cordoned=gpus.cordoned,
    )


def _gangs(fit: Fit | None) -> wire.DomainGangsAnswer | None:
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
