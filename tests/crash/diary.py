"""What really happened: each attempt appends a line when it begins and one before it exits, whatever the server is doing."""

from dataclasses import dataclass, field
from pathlib import Path

SCRIPT = """\
key="$RUNRIG_WORKFLOW_ID/$RUNRIG_TASK/$RUNRIG_RETRY_ID"
echo "start $key $CUDA_VISIBLE_DEVICES $(date +%s.%N)" >> "{diary}"
sleep {seconds}
{last_words}
echo "end $key $code $(date +%s.%N)" >> "{diary}"
exit $code
"""
"""A line is written at once, so that lines of several attempts never mix."""

ALONE = "code={code}"
TWIN = """\
twin="{diary}.$RUNRIG_WORKFLOW_ID"
if [ "$RUNRIG_INDEX" = 1 ]; then
    code=0
    echo $$ > "$twin"
else
    code={code}
    while [ ! -s "$twin" ] || kill -0 "$(cat "$twin")" 2>> /dev/null; do sleep 0.05; done
fi"""
"""Pod 0 leads, and its end is the end of pod 1: so it waits until that is gone."""


@dataclass
class Diary:
    """Starts and ends by WORKFLOW/TASK/RETRY.  Times in seconds since the epoch; a start is noted after it, an end before it."""

    starts: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)
    gpus: dict[str, tuple[int, ...]] = field(default_factory=dict)
    started_at: dict[str, float] = field(default_factory=dict)
    ended_at: dict[str, float] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Diary":
        diary = cls()
        for line in path.read_text().splitlines() if path.exists() else ():
            what, key, value, at = line.split(" ")
            if what == "start":
                diary.starts.append(key)
                diary.gpus[key] = tuple(int(index) for index in value.split(","))
                diary.started_at[key] = float(at)
            else:
                diary.ends.append(key)
                diary.codes[key] = int(value)
                diary.ended_at[key] = float(at)
        return diary

    @property
    def running(self) -> int:
        return len(self.starts) - len(self.ends)

    def ran_twice(self) -> list[str]:
        """Attempts that began, or ended, more than once."""
        noted = [*self.starts, *(f"end of {key}" for key in self.ends)]
        return sorted({key for key in noted if noted.count(key) > 1})

    def shared_gpus(self) -> list[tuple[int, str, str]]:
        """(GPU, attempt, attempt) that held it at one time.  GPUs are handed out for as long as an attempt lives."""
        shared = []
        by_gpu: dict[int, list[tuple[float, float, str]]] = {}
        for key, indices in self.gpus.items():
            for index in indices:
                held = (self.started_at[key], self.ended_at.get(key, float("inf")), key)
                by_gpu.setdefault(index, []).append(held)
        for index, holders in sorted(by_gpu.items()):
            holders.sort()
            latest_end, latest = float("-inf"), ""
            for start, end, key in holders:
                if start < latest_end:
                    shared.append((index, latest, key))
                latest_end, latest = max((latest_end, latest), (end, key))
        return shared
