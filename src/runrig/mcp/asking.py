"""Arguments of the tools."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from runrig.client import AsyncClient
from runrig.domain.errors import InvalidInput
from runrig.spec.arrays import parse_array
from runrig.spec.one_task import NO_IMAGE, OneArray, OneTask, looks_secret, name_of
from runrig.spec.one_task import file_of as one_task_file

Id = Annotated[str, Field(description="ID of a workflow, such as train-1.", min_length=1, max_length=200)]
Filter = Annotated[str, Field(description="Only this one. Empty: all.", max_length=200)]
Pool = Annotated[str, Field(description="Only this pool. Empty: all.", max_length=200)]
Priority = Annotated[
    Literal["", "HIGH", "NORMAL", "LOW"],
    Field(description="HIGH and NORMAL are never preempted and never borrow; LOW can borrow and be preempted."),
]
Limit = Annotated[int, Field(ge=1, le=100, description="Maximum number of items.")]
Key = Annotated[str, Field(description="The key from the answer without key. Leave it out first.", max_length=200)]


class OneCommand(BaseModel):
    """A command as a workflow of one task, as of `runrig run`."""

    model_config = ConfigDict(extra="forbid")

    command: Annotated[
        list[str], Field(min_length=1, description="Program and arguments; for a shell bash, -c, '...'.")
    ]
    gpus: Annotated[int, Field(ge=0, le=1_000_000, description="GPUs of each node.")] = 1
    nodes: Annotated[int, Field(ge=1, le=10_000, description="All start together.")] = 1
    image: Annotated[str, Field(description="Default: the image of the pool. Required on Kubernetes.")] = ""
    name: Annotated[str, Field(description="Default: from the command.")] = ""
    time: Annotated[str, Field(description="Time limit, such as 4h. Default: the pool's.")] = ""
    cpus: Annotated[int | None, Field(ge=1)] = None
    memory: Annotated[str, Field(description="Memory of each node, such as 64Gi.")] = ""
    array: Annotated[
        str,
        Field(
            description="Run it once for each index, such as 0-9; 0-9%3: 3 at a time. {{array_index}} in the command is the index."
        ),
    ] = ""
    environment: Annotated[dict[str, str], Field(description="No secrets: they would be stored in the file.")] = {}

    def task(self, image: str | None) -> OneTask:
        for name in self.environment:
            if looks_secret(name):
                raise InvalidInput.one(
                    f"{name} looks like a secret, and the workflow file would store its value. Ask your user to store it "
                    "with `runrig credential set`, and name it under credentials: in a workflow file"
                )
        return OneTask(
            array=self._array(),
            name=self.name or name_of(self.command),
            command=self.command,
            image=self.image or image or NO_IMAGE,
            gpus=self.gpus,
            nodes=self.nodes,
            cpus=self.cpus,
            memory=self.memory or None,
            time=self.time or None,
            environment=self.environment,
        )

    def _array(self) -> OneArray | None:
        if not self.array:
            return None
        try:
            asked = parse_array(self.array)
        except ValueError as error:
            raise InvalidInput.one(f"array: {error}") from None
        return OneArray(asked.indices, most=asked.most)


Work = Annotated[OneCommand | None, Field(description="A command to submit, instead of a file.")]


async def file_of(client: AsyncClient, work: OneCommand | None, file: str, pool: str) -> str:
    """Returns the text of the workflow file to submit to *pool*. Raises InvalidInput unless exactly one is given."""
    if work is None and file:
        return file
    if work is None or file:
        raise InvalidInput.one("use either work (a command) or file (the text of a workflow file)")
    name = pool or (await client.me()).default_pool
    image = (await client.pools.get(name)).default_image if name and not work.image else None
    return one_task_file(work.task(image))
