"""Sessions in tasks, in the format of the osmo client."""

from runrig.wire.base import Answer, example


class RouterAnswer(Answer):
    """Where to connect: ``{router_address}/api/router/KIND/{workflow}/client/{key}``, within a minute and with a token
    of the same user.

    *cookie*: always empty, because the server itself is the only router.
    """

    model_config = example(
        {"router_address": "ws://127.0.0.1:8700", "key": "EXEC-2vQb0cCkq3mV6aT1y0nXzw", "cookie": ""}
    )

    router_address: str
    key: str
    cookie: str = ""


class RsyncPathAnswer(Answer):
    model_config = example({"path": "/", "writable": True})

    path: str
    writable: bool


class RsyncAnswer(Answer):
    """*allowed_paths*: name of an rsync module → its absolute path in the task, in addition to the usual workspace."""

    model_config = example({"enabled": True, "allowed_paths": {"root": RsyncPathAnswer.example()}})

    enabled: bool = True
    allowed_paths: dict[str, RsyncPathAnswer]


class PluginConfigsAnswer(Answer):
    model_config = example({"rsync": RsyncAnswer.example()})

    rsync: RsyncAnswer
