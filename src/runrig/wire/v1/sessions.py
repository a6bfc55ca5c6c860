"""Sessions in running tasks."""

from pydantic import Field

from runrig.wire.base import Request, Whole, example


class Terminal(Request):
    """Its size in characters."""

    model_config = example({"rows": 24, "columns": 80})

    rows: Whole = Field(ge=1, le=9999)
    columns: Whole = Field(ge=1, le=9999)


class ExecStart(Request):
    """*command*: words, without a shell. *terminal* null: stdin, stdout and stderr are three pipes."""

    model_config = example({"command": ["nvidia-smi", "-L"], "terminal": None})

    command: list[str] = Field(min_length=1, max_length=1000)
    terminal: Terminal | None = None


class PortForwardStart(Request):
    """*port*: in the task; TCP unless *udp*."""

    model_config = example({"port": 6006})

    port: Whole = Field(ge=1, le=65535)
    udp: bool = False
