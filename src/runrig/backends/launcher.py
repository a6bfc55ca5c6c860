"""Variables of tasks: which pod it is, and how launchers such as torchrun and mpirun find its other nodes. Pure."""

import zlib
from collections.abc import Iterable

from runrig.domain.workflows import TaskKey

KUBERNETES_PORT = 29500
_FIRST_PORT, _PORTS = 20_000, 10_000


def variables(*, nodes: int, rank: int, gpus: int, address: str, port: int, hostfile: str | None) -> dict[str, str]:
    """Returns the variables of one node. A task can override them.

    *nodes*: admitted. *gpus*: of each node. *address*, *port*: where node 0 listens. *hostfile* None: there is none. RANK
    and WORLD_SIZE are left out: programs that find them believe that they were started once per GPU.
    """
    rendezvous = {"MASTER_ADDR": address, "MASTER_PORT": str(port)}
    found = {
        "PET_NNODES": str(nodes),
        "PET_NODE_RANK": str(rank),
        "PET_NPROC_PER_NODE": str(max(1, gpus)),
        **{f"PET_{name}": value for name, value in rendezvous.items()},
        **rendezvous,
        "RUNRIG_NODES": str(nodes),
        "RUNRIG_NODE_RANK": str(rank),
        "RUNRIG_GPUS": str(gpus),
    }
    names = ("RUNRIG_HOSTFILE", "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile")
    return found if hostfile is None else found | dict.fromkeys(names, hostfile)


def own_variables(key: TaskKey, *, index: int, count: int, max_count: int) -> dict[str, str]:
    """Returns what tells a task which of its pods it is. A task cannot override them."""
    return {
        "RUNRIG_WORKFLOW_ID": key.workflow,
        "RUNRIG_TASK": key.task,
        "RUNRIG_RETRY_ID": str(key.retry_id),
        "RUNRIG_INDEX": str(index),
        "RUNRIG_COUNT": str(count),
        "RUNRIG_MAX_COUNT": str(max_count),
    }


def hostfile_of(addresses: Iterable[str], gpus: int) -> str:
    """Returns a host file for mpirun: a line for each node, in order of rank."""
    return "".join(f"{address} slots={max(1, gpus)}\n" for address in addresses)


def port_of(gang: str, attempt: int) -> int:
    """Returns a port for gangs that share an address: the same for all nodes of an attempt of a gang."""
    return _FIRST_PORT + zlib.crc32(f"{gang}/{attempt}".encode()) % _PORTS
