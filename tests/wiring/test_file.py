"""The file of `runrig serve`: what it declares, and every problem of it at once with its place."""

# ruff: noqa: E501  a case and what it is told are easier to compare in one line

import shutil
from pathlib import Path

import pytest

from runrig.domain.cluster import BACKENDS
from runrig.domain.errors import InvalidInput
from runrig.spec.serve import read_serve
from runrig.spec.serve_settings import KubernetesSpec, ServeSpec, Tls
from runrig.wiring.serve import hosts

DATA = Path(__file__).parent / "data"
LEAST = "data: data\nbackend: simulated\n"
ENVIRONMENT = {"RUNRIG_DB": "postgresql://me:pw@db/runrig"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a certificate, a key, a password file and two cluster files."""
    for name in ("cert.pem", "key.pem"):
        shutil.copy(DATA / name, tmp_path / name)
    (tmp_path / "key.pem").chmod(0o600)
    shutil.copy(tmp_path / "key.pem", tmp_path / "open.pem")
    (tmp_path / "open.pem").chmod(0o644)
    (tmp_path / "url").write_text("postgresql://me:pw@db/runrig\n")
    (tmp_path / "url").chmod(0o600)
    (tmp_path / "cluster.yaml").write_text("backend: {type: simulated}\npools: [{name: team, quota: 4}]\n")
    (tmp_path / "local.yaml").write_text("backend: {type: local}\n")
    (tmp_path / "bad.yaml").write_text("pools: [{name: team, quota: -4}]\npol: 1\n")
    return tmp_path


def read(text: str, folder: Path, mode: int = 0o600) -> ServeSpec:
    return read_serve(text, folder, ENVIRONMENT, mode=mode)


def problems(text: str, folder: Path, mode: int = 0o600) -> list[tuple[int | None, str]]:
    with pytest.raises(InvalidInput) as refused:
        read(text, folder, mode)
    return [(problem.line, problem.message.replace(f"{folder}/", "")) for problem in refused.value.problems]


def test_minimal_file_listens_on_loopback_with_its_own_database(folder: Path) -> None:
    assert read(LEAST, folder) == ServeSpec(database=f"sqlite:///{folder}/data/runrig.db", data=folder / "data")


def test_every_field_has_an_effect(folder: Path) -> None:
    text = """
database: {file: url}
data: /var/lib/runrig
listen: "[::]:8443"
tls: {cert: cert.pem, key: key.pem}
hosts: [runrig.Example.org, "10.0.0.7:8443"]
backend: {type: simulated}
cluster: cluster.yaml
auth: tokens
drain_sweep_s: 60
bind_timeout_s: 30
start_timeout_s: 600
retention_days: 7
log_store: logs
log_file: /var/log/runrig.log
connections: 200
read_timeout_s: 5
"""
    spec = read(text, folder)
    assert spec.cluster is not None
    assert [pool.name for pool in spec.cluster.pools] == ["team"]
    assert spec == ServeSpec(
        database="postgresql://me:pw@db/runrig",
        data=Path("/var/lib/runrig"),
        host="::",
        port=8443,
        tls=Tls(folder / "cert.pem", folder / "key.pem"),
        hosts=("runrig.example.org", "10.0.0.7:8443"),
        cluster=spec.cluster,
        drain_sweep_s=60,
        retention_days=7,
        log_store=folder / "logs",
        log_file=Path("/var/log/runrig.log"),
        connections=200,
        read_timeout_s=5,
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("kubernetes", KubernetesSpec()),
        ("{type: kubernetes}\nbind_timeout_s: 2", KubernetesSpec(bind_timeout_s=2)),
        ("{type: kubernetes}\nstart_timeout_s: 7200", KubernetesSpec(start_timeout_s=7200)),
        ("{type: kubernetes, namespace: gpu-1, context: lab}", KubernetesSpec("gpu-1", context="lab")),
        ("{type: kubernetes, code_url: 'http://Runrig.svc:8700/'}", KubernetesSpec(code_url="http://runrig.svc:8700")),
    ],
)
def test_kubernetes_is_reached_in_the_usual_way_or_as_configured(
    folder: Path, written: str, expected: KubernetesSpec
) -> None:
    spec = read(f"data: data\nbackend: {written}\n", folder)
    assert (spec.backend, spec.kubernetes) == ("kubernetes", expected)


def test_code_url_names_this_server(folder: Path) -> None:
    spec = read("data: data\nbackend: {type: kubernetes, code_url: 'http://runrig.svc:80/runrig'}\n", folder)
    assert hosts(spec, 8700) - hosts(read("data: data\nbackend: kubernetes\n", folder), 8700) == {"runrig.svc:80"}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            "{type: kubernetes, namespace: GPU}",
            "namespace: 'GPU' must be lower-case letters, digits and '-', at most 63",
        ),
        *(
            (
                f"{{type: kubernetes, code_url: '{wrong}'}}",
                f"code_url: '{wrong}' is not the address of this server. Use for example http://runrig.runrig.svc:8700.",
            )
            for wrong in (
                "runrig:8700",
                "ftp://runrig",
                "http://",
                "http://me:pw@runrig",
                "http://runrig/?a=b",
                "http://a b",
            )
        ),
        (
            "{type: simulated, code_url: 'http://runrig'}",
            "backend: code_url: only the kubernetes backend has this, not simulated",
        ),
        ("{type: simulated, context: lab}", "backend: context: only the kubernetes backend has this, not simulated"),
        (
            "{type: kubernetes, kubeconfig: none}",
            "kubeconfig: none cannot be read (No such file or directory). Correct the path or its permissions.",
        ),
        (
            "{type: kubernetes, url: x}",
            "a backend has no field 'url'. Use one of type, namespace, kubeconfig, context, code_url",
        ),
    ],
)
def test_kubernetes_problems_are_reported(folder: Path, written: str, message: str) -> None:
    assert [each for _, each in problems(f"data: data\nbackend: {written}\n", folder)] == [message]


@pytest.mark.parametrize(
    ("more", "proxies"),
    [
        ("behind_proxy: true", "127.0.0.1,::1"),
        ("behind_proxy: 10.0.0.0/28", "10.0.0.0/28"),
        ("behind_proxy: false", None),
    ],
)
def test_proxy_is_on_this_machine_or_named(folder: Path, more: str, proxies: str | None) -> None:
    assert read(LEAST + more, folder).proxies == proxies


@pytest.mark.parametrize(
    ("database", "url"),
    [
        ("{env: RUNRIG_DB}", "postgresql://me:pw@db/runrig"),
        ("{file: url}", "postgresql://me:pw@db/runrig"),
        ("postgresql:///runrig", "postgresql:///runrig"),
        ("/srv/runrig.db", "sqlite:////srv/runrig.db"),
    ],
)
def test_database_url_is_in_the_file_in_another_file_or_in_the_environment(
    folder: Path, database: str, url: str
) -> None:
    assert read(f"{LEAST}database: {database}", folder).database == url


def test_retention_can_be_never(folder: Path) -> None:
    assert read(LEAST + "retention_days: never", folder).retention_days is None


CASES = [
    (
        "listen: 0.0.0.0:8700\nhosts: [a]",
        (
            3,
            "listen: 0.0.0.0 can be reached from other machines, so tokens would be sent unencrypted. Add tls: {cert: FILE, key: FILE}, or behind_proxy: true if a proxy handles TLS, or listen on 127.0.0.1",
        ),
    ),
    (
        "listen: gpu.example.org:8700",
        (
            3,
            "listen: gpu.example.org can be reached from other machines, so tokens would be sent unencrypted. Add tls: {cert: FILE, key: FILE}, or behind_proxy: true if a proxy handles TLS, or listen on 127.0.0.1",
        ),
    ),
    (
        "listen: 0.0.0.0:8700\nbehind_proxy: true",
        (3, "listen: 0.0.0.0 means all addresses of this machine. Add hosts: [NAME] with the names that clients use."),
    ),
    ("listen: '8700'", (3, "listen: '8700' is not an address. Use HOST:PORT, such as 0.0.0.0:8700 or [::]:8700.")),
    (
        "listen: '127.0.0.1:99999'",
        (3, "listen: '127.0.0.1:99999' is not an address. Use HOST:PORT, such as 0.0.0.0:8700 or [::]:8700."),
    ),
    ("port: 80", (3, "a server file has no field 'port': use listen: HOST:PORT")),
    ("pools: []", (3, "a server file has no field 'pools': pools are defined in the cluster file. Use cluster: FILE.")),
    ("tls: {cert: cert.pem}", (3, "tls needs key. Add key: FILE")),
    (
        "tls: {cert: nope.pem, key: key.pem}",
        (3, "cert: nope.pem cannot be read (No such file or directory). Correct the path or its permissions."),
    ),
    (
        "tls: {cert: cert.pem, key: open.pem}",
        (3, "key: open.pem is readable by all users of this machine. Run `chmod 600 open.pem`"),
    ),
    (
        "tls: {cert: url, key: key.pem}",
        (
            3,
            "tls: the certificate and the key do not work together. Both must be in PEM, and the key without a password.",
        ),
    ),
    (
        "behind_proxy: nginx",
        (
            3,
            "behind_proxy: 'nginx' is not a proxy address. Use true for a proxy on this machine, or for example 10.0.0.5 or 10.0.0.0/28.",
        ),
    ),
    (
        "hosts: ['https://a']",
        (3, "hosts[0]: 'https://a' is not a host name. Use for example runrig.example.org or runrig.example.org:8443."),
    ),
    (
        "cluster: local.yaml",
        (3, "cluster: local.yaml sets backend local, but this file sets simulated. Use the same backend in both."),
    ),
    (
        "cluster: /dev/zero",
        (3, "cluster: /dev/zero cannot be read (Not a regular file). Correct the path or its permissions."),
    ),
    (
        "database: {file: /dev/zero}",
        (3, "file: /dev/zero cannot be read (Not a regular file). Correct the path or its permissions."),
    ),
    ("auth: none", (3, "auth: expected one of tokens, got text 'none'")),
    (
        "database: mysql://a:secret@b/c",
        (3, "database: mysql://… is not supported. Use postgresql://USER:PASSWORD@HOST/DATABASE or sqlite:///PATH."),
    ),
    ("database: {env: NOPE}", (3, "env: environment variable 'NOPE' is not set. Set it to the URL of the database")),
    ("database: {}", (3, "database: use a URL, {file: FILE} or {env: NAME}")),
    ("retention_days: 0", (3, "retention_days: 0 is out of range. Use 0.01 to 36,500")),
    ("connections: 1", (3, "connections: 1 is too small. Use at least 10")),
    ("read_timeout_s: soon", (3, "read_timeout_s: expected a number, got text 'soon'")),
]


@pytest.mark.parametrize(("more", "told"), CASES, ids=[more for more, _ in CASES])
def test_problem_is_reported_with_its_line_and_a_way_out(folder: Path, more: str, told: tuple[int, str]) -> None:
    assert problems(LEAST + more, folder) == [told]


@pytest.mark.parametrize(
    ("backend", "told"),
    [
        (
            "local",
            "backend: `serve` does not support local: its tasks would run as the server's user. Use `runrig up` for one person on one machine.",
        ),
        (
            "{type: local}",
            "type: `serve` does not support local: its tasks would run as the server's user. Use `runrig up` for one person on one machine.",
        ),
        ("slurm", f"backend: expected one of {', '.join(BACKENDS)}, got text 'slurm'"),
    ],
)
def test_only_backends_that_run_tasks_elsewhere_are_accepted(folder: Path, backend: str, told: str) -> None:
    assert problems(f"data: data\nbackend: {backend}", folder) == [(2, told)]


def test_password_in_a_readable_file_is_refused_and_not_shown(folder: Path) -> None:
    text = LEAST + "database: postgresql://me:pw@db/runrig"
    assert read(text, folder).database == "postgresql://me:pw@db/runrig"
    assert problems(text, folder, mode=0o644) == [
        (
            3,
            "database: it contains a password, and other users can read this file. Run `chmod 600` on it, or use database: {file: FILE}.",
        )
    ]
    (folder / "url").chmod(0o644)
    assert problems(LEAST + "database: {file: url}", folder) == [
        (3, "file: url is readable by all users of this machine. Run `chmod 600 url`")
    ]


def test_all_problems_are_reported_together_including_those_of_the_cluster_file(folder: Path) -> None:
    text = "data: data\nbackend: local\ncluster: bad.yaml\nlisten: 10.0.0.7:80\ndatabase: mongodb://x\nfoo: 1\n"
    assert problems(text, folder) == [
        (
            2,
            "backend: `serve` does not support local: its tasks would run as the server's user. Use `runrig up` for one person on one machine.",
        ),
        (3, "cluster: bad.yaml:1:29: quota: -4 is negative. Use at least 0"),
        (3, "cluster: bad.yaml:2:1: a cluster file has no field 'pol'. Did you mean 'pools'?"),
        (
            4,
            "listen: 10.0.0.7 can be reached from other machines, so tokens would be sent unencrypted. Add tls: {cert: FILE, key: FILE}, or behind_proxy: true if a proxy handles TLS, or listen on 127.0.0.1",
        ),
        (5, "database: mongodb://… is not supported. Use postgresql://USER:PASSWORD@HOST/DATABASE or sqlite:///PATH."),
        (
            6,
            "a server file has no field 'foo'. Use one of database, data, listen, tls, behind_proxy, hosts, backend, cluster, auth, oidc, drain_sweep_s, bind_timeout_s, start_timeout_s, retention_days, log_store, log_file, connections, read_timeout_s, credential_key, notify",
        ),
    ]
