"""What launchers find in the environment of each node."""

from runrig.backends.launcher import hostfile_of, port_of, variables


def test_torchrun_and_mpirun_find_all_nodes_and_their_gpus() -> None:
    assert variables(nodes=2, rank=1, gpus=8, address="main-0.g", port=29500, hostfile="/hosts") == {
        "PET_NNODES": "2",
        "PET_NODE_RANK": "1",
        "PET_NPROC_PER_NODE": "8",
        "PET_MASTER_ADDR": "main-0.g",
        "PET_MASTER_PORT": "29500",
        "MASTER_ADDR": "main-0.g",
        "MASTER_PORT": "29500",
        "RUNRIG_NODES": "2",
        "RUNRIG_NODE_RANK": "1",
        "RUNRIG_GPUS": "8",
        "RUNRIG_HOSTFILE": "/hosts",
        "OMPI_MCA_orte_default_hostfile": "/hosts",
        "PRTE_MCA_prte_default_hostfile": "/hosts",
    }
    assert hostfile_of(["a", "b"], 8) == "a slots=8\nb slots=8\n"


def test_a_node_without_gpus_still_starts_one_process() -> None:
    alone = variables(nodes=1, rank=0, gpus=0, address="127.0.0.1", port=20001, hostfile=None)
    assert (alone["PET_NPROC_PER_NODE"], alone["RUNRIG_GPUS"]) == ("1", "0")
    assert [name for name in alone if "hostfile" in name.lower()] == []
    assert hostfile_of(["a"], 0) == "a slots=1\n"


def test_gangs_on_one_address_have_their_own_ports() -> None:
    ports = {port_of(f"train-{number}/main-group", attempt) for number in range(20) for attempt in range(5)}
    assert all(20_000 <= port <= 29_999 for port in ports)
    assert len(ports) > 95, "hardly any two are equal"
    assert port_of("train-1/main-group", 0) == port_of("train-1/main-group", 0) != port_of("train-1/main-group", 1)
