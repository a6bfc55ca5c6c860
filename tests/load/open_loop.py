"""Requests at planned moments, whether or not those before them have been answered: what waits behind a stall counts as slow.

A client that waits for its answer before it asks again would ask less while the server is slow, and so hide that it is.
"""

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

from tests.load.crowd import Client, Figures
from tests.load.metropolis import FREE_POOLS, PER_NODE, SHAPES, Size, pool_name

FILE = """
workflow:
  name: {name}
  tasks:
  - {{name: main, image: any, command: [train], duration: {seconds}, resource: one}}
  resources:
    one: {{gpu: {gpus}}}
"""


@dataclass
class Plan:
    """*rates*: requests a second of each kind.  *size*: of the cluster.

    *askers*: people who do nothing but ask why something waits and what would start it, the next as soon as they have an answer.

    *living*: ids that were submitted and not yet cancelled, oldest first.
    """

    rates: dict[str, float]
    seconds: float
    size: Size
    askers: int = 0
    living: "asyncio.Queue[str]" = field(default_factory=asyncio.Queue)


Ask = Callable[[Client, Plan, random.Random], Awaitable[None]]


async def _submit(client: Client, plan: Plan, chance: random.Random) -> None:
    pool = pool_name(chance.randrange(plan.size.pools) if chance.random() < 0.5 else chance.randrange(FREE_POOLS))
    text = FILE.format(name=f"open-{chance.randrange(50)}", seconds=60, gpus=chance.choice((1, 2, 4)))
    made = await client.ask("submit", "POST", f"/api/pool/{pool}/workflow", {"file": text})
    if made is not None:
        plan.living.put_nowait(made["name"])


async def _cancel(client: Client, plan: Plan, chance: random.Random) -> None:
    """Leaves a second's worth of submits behind it, so that some of what is cancelled waits and some runs."""
    if plan.living.qsize() > plan.rates["submit"]:
        await client.ask("cancel", "POST", f"/api/workflow/{plan.living.get_nowait()}/cancel?force=true")


async def _resize(client: Client, plan: Plan, chance: random.Random) -> None:
    quota = PER_NODE * chance.randrange(9, 12)
    await client.ask(
        "resize", "PATCH", f"/api/v1/pools/{pool_name(chance.randrange(plan.size.pools))}", {"quota": quota}
    )


async def _why(client: Client, plan: Plan, chance: random.Random) -> None:
    await client.ask("why", "GET", f"/api/v1/workflows/{_waiting(chance)}/why")


async def _would_start(client: Client, plan: Plan, chance: random.Random) -> None:
    """The owner's changes, as `runrig why` asks for them; 503 to whom finds too many before them, and asks again."""
    path = f"/api/v1/workflows/{_waiting(chance)}/why?changes=own"
    await client.ask("would start", "GET", path, busy=503)


def _waiting(chance: random.Random) -> str:
    return f"{chance.choice(list(SHAPES))}-{chance.randrange(1, 100)}-1"


async def _pools(client: Client, plan: Plan, chance: random.Random) -> None:
    await client.ask("pools", "GET", "/api/pool_quota")


async def _resources(client: Client, plan: Plan, chance: random.Random) -> None:
    """A short page: each node repeats its pools, with a thousand of them a fifth of a megabyte."""
    await client.ask("resources", "GET", f"/api/resources?limit=5&offset={chance.randrange(plan.size.nodes)}")


ASKS: dict[str, Ask] = {
    "submit": _submit,
    "cancel": _cancel,
    "resize": _resize,
    "why": _why,
    "pools": _pools,
    "resources": _resources,
}


def _moments(plan: Plan, chance: random.Random) -> Iterator[tuple[float, str]]:
    """Seconds from the start and kinds, in order: each kind at random moments of its rate."""

    def of(kind: str, rate: float) -> Iterator[tuple[float, str]]:
        at = chance.expovariate(rate)
        while at < plan.seconds:
            yield at, kind
            at += chance.expovariate(rate)

    return iter(sorted(itertools.chain.from_iterable(of(*each) for each in plan.rates.items())))


async def run(port: int, token: str, plan: Plan, *, clients: int) -> Figures:
    """All requests of *plan*, over *clients* connections; each is timed from the moment that was planned for it."""
    figures = Figures()
    chance = random.Random(plan.seconds)
    due: asyncio.Queue[tuple[float, str] | None] = asyncio.Queue()

    async def serve(client: Client) -> None:
        while (each := await due.get()) is not None:
            client.planned, kind = each
            await ASKS[kind](client, plan, chance)
        client.close()

    done = asyncio.Event()

    async def keep_asking(number: int) -> None:
        client, mine = Client(port, token, figures), random.Random(number)
        while not done.is_set():
            await mine.choice((_why, _would_start))(client, plan, mine)
        client.close()

    askers = [asyncio.create_task(keep_asking(number)) for number in range(plan.askers)]
    crowd = [asyncio.create_task(serve(Client(port, token, figures))) for _ in range(clients)]
    start = time.perf_counter()
    for at, kind in _moments(plan, chance):
        await asyncio.sleep(start + at - time.perf_counter())
        due.put_nowait((start + at, kind))
    for _ in crowd:
        due.put_nowait(None)
    await asyncio.gather(*crowd)
    done.set()
    await asyncio.gather(*askers)
    return figures
