"""The two clients."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from runrig.client import models
from runrig.client.caller import PAGE, PLAN_S, Caller
from runrig.client.calls import access, cluster, pools, workflows
from runrig.client.network import BlockingNetwork, Network
from runrig.client.paths import path, time
from runrig.client.server_address import ServerAddress, one_line
from runrig.client.sign_in import SignIn
from runrig.client.transport import patience
from runrig.client.ways import Awaiting, Blocking, Calls, W, call, said

if TYPE_CHECKING:
    import ssl


class ServerCalls(Calls[W], ABC):
    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        data: str | None = None,
        patience_s: float | None = None,
        tls: "ssl.SSLContext | None" = None,
        page: int = PAGE,
    ) -> None:
        """*page*: items per page of a list, at most 1,000. Raises InvalidInput if *server* is not a URL."""
        found = ServerAddress(server, data)
        address = found.address()
        caller = Caller(
            self._new_network(),
            address,
            one_line(token, "token=") if token else SignIn(found, address),
            f"; log in with `runrig login {address.url}` or set RUNRIG_TOKEN",
            patience_s=patience(address, os.environ) if patience_s is None else patience_s,
            tls=tls,
            keeps=True,
            page=page,
        )
        super().__init__(caller)
        self.workflows = workflows.WorkflowCalls[W](caller)
        self.pools = pools.PoolCalls[W](caller)
        self.limits = pools.LimitCalls[W](caller)
        self.cohorts = pools.CohortCalls[W](caller)
        self.nodes = cluster.NodeCalls[W](caller)
        self.events = cluster.EventCalls[W](caller)
        self.tokens = access.TokenCalls[W](caller)
        self.users = access.UserCalls[W](caller)
        self.roles = access.RoleCalls[W](caller)
        self.credentials = access.CredentialCalls[W](caller)

    @abstractmethod
    def _new_network(self) -> Network: ...

    @call
    async def me(self) -> "models.Me":
        """Returns your user name, your roles, and the pools to which you can submit."""
        return await self._get(models.Me, path("me"))

    @call
    async def set_default_pool(self, pool: str | None) -> "models.Me":
        """Sets the pool for workflows that name none; None removes it. Returns the same as `me`.

        Raises NotFound, NotAllowed or Conflict if you cannot submit to *pool*.
        """
        return await self._ask(models.Me, "PATCH", path("me"), {"default_pool": pool})

    @call
    async def notices(self) -> "models.NoticeSettings":
        """Returns where notices of your workflows are sent, and the result of the last one."""
        return await self._get(models.NoticeSettings, path("me", "notices"))

    @call
    async def set_notices(
        self, to: str | None, when: Sequence[str] = ("fail", "preempt"), min_run_s: int = 0
    ) -> "models.NoticeSettings":
        """Sends notices to *to*, an https or mail address; None: turns notices off. *when*: start, done, fail, preempt.

        *min_run_s*: no notice of the end of a workflow that ran for less. The secret of a new https address is in the answer.
        """
        if to is None:
            await self._send("DELETE", path("me", "notices"))
            return await self._get(models.NoticeSettings, path("me", "notices"))
        body = {"to": to, "when": [*when], "min_run_s": min_run_s}
        return await self._ask(models.NoticeSettings, "PUT", path("me", "notices"), body)

    @call
    async def test_notices(self) -> str:
        """Sends a test notice, and returns ``delivered`` or what went wrong."""
        return (await self._ask(models.NoticeTest, "POST", path("me", "notices") + ":test")).result

    @call
    async def version(self) -> str:
        """Returns the version of the server."""
        return (await self._get(models.Version, path("version"))).version

    @call
    async def usage(
        self,
        *,
        by: Sequence[str] = ("pool",),
        since: datetime | None = None,
        until: datetime | None = None,
        every: str | None = None,
        pool: Sequence[str] = (),
        user: Sequence[str] = (),
        flavor: Sequence[str] = (),
        tree: bool = False,
    ) -> "models.Usage":
        """Returns who used how much, in GPU-seconds. *by*: any of user, pool, flavor and priority.

        *since* None: 7 days before *until*. *until* None: now. *every*: hour, day, week or month; None: everything
        together. *pool*, *user*, *flavor*: only these. *tree*: also a row for each pool together with its subpools. Raises NotFound,
        InvalidInput.
        """
        times = {"since": time(since), "until": time(until)}
        only = {"pool": pool, "user": user, "flavor": flavor, "tree": tree or None}
        query = {"by": by, **times, "every": every, **only}
        return await self._get(models.Usage, path("usage"), query)

    @call
    async def apply(
        self, file: str | Path, *, prune: bool = False, dry_run: bool = False, if_revision: int | None = None
    ) -> "models.ApplyAnswer":
        """Applies a cluster *file*, a Path or its text, and returns the changes. *dry_run*: only returns them.

        *prune*: remove what an earlier file had and this one has not. *if_revision*: of a plan. Raises Changed if
        anything it covers was changed since.
        """
        text = file.read_text(encoding="utf-8") if isinstance(file, Path) else file
        body = {"file": text, "prune": prune, "dry_run": dry_run, "if_revision": if_revision}
        return await self._ask(models.ApplyAnswer, "POST", path("apply"), body)

    @call
    async def plan(self, question: "models.PlanRequest") -> "models.Plan":
        """Returns the effect of an edit, a loss of nodes or a submission. Changes nothing."""
        return await self._ask(models.Plan, "POST", path("plan"), said(question), timeout_s=PLAN_S)

    @call
    async def export(self) -> str:
        """Returns cohorts, pools and roles as a cluster file, which `apply` accepts unchanged."""
        return (await self._get(models.ClusterFile, path("cluster-file"))).file


class Client(ServerCalls[Blocking]):
    """A blocking client.

    By default it uses the same server as the command line: RUNRIG_SERVER and RUNRIG_TOKEN, else that of `runrig login`,
    else one on this machine. *data*: data folder of a server on this machine. *patience_s*: seconds to wait for an
    unreachable server in calls that can be retried; None: RUNRIG_RETRY_S, else 15 s, or 0 s for this machine. *tls*:
    trusted certificates; None: those of the system.

    Keeps connections until it is closed. Thread-safe.
    """

    def _new_network(self) -> BlockingNetwork:
        return BlockingNetwork()

    def close(self) -> None:
        """Closes all connections."""
        self._caller.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(ServerCalls[Awaiting]):
    """The same for asyncio: `await` calls, and use `async for` for lists and streams. Belongs to one event loop."""

    def _new_network(self) -> Network:
        from runrig.client.awaiting import AwaitingNetwork

        self._network = AwaitingNetwork()
        return self._network

    async def close(self) -> None:
        """Closes all connections."""
        self._caller.close()
        await self._network.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
