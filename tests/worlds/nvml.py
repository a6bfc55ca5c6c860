"""A stand-in of NVIDIA's library for machines without GPUs: a real shared library, whose numbers are in a file."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

_SOURCE = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct { unsigned gpu, memory; } Rates;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;
enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, LOST = 15 };
static int numbers(int gpu, unsigned *busy, unsigned *used_gib, unsigned *watts) {
    FILE *file = fopen(getenv("STAND_IN_GPUS"), "r");
    int found = 0;
    for (int at = 0; file && fscanf(file, "%u %u %u", busy, used_gib, watts) == 3; at++)
        if (at == gpu) { found = 1; break; }
    if (file) fclose(file);
    return found;
}
int nvmlInitWithFlags(unsigned flags) { return OK; }
int nvmlShutdown(void) { return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) {
    unsigned a, b, c;
    for (*count = 0; numbers(*count, &a, &b, &c); ++*count);
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu) { *gpu = (void *)(uintptr_t)(index + 1); return OK; }
int nvmlDeviceGetUUID(void *gpu, char *uuid, unsigned size) { snprintf(uuid, size, "GPU-%d", (int)(uintptr_t)gpu - 1); return OK; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **gpu) { return nvmlDeviceGetHandleByIndex_v2(atoi(uuid + 4), gpu); }
#define READ unsigned busy, used, watts; if (!numbers((int)(uintptr_t)gpu - 1, &busy, &used, &watts)) return LOST
int nvmlDeviceGetUtilizationRates(void *gpu, Rates *rates) { READ; if (busy > 100) return NOT_SUPPORTED; rates->gpu = busy; return OK; }
int nvmlDeviceGetMemoryInfo(void *gpu, Memory *memory) {
    READ;
    memory->total = 80ULL << 30; memory->used = (unsigned long long)(used + 1) << 30;
    return OK;
}
#ifndef OLD
int nvmlDeviceGetMemoryInfo_v2(void *gpu, Memory2 *memory) {
    READ;
    memory->total = 80ULL << 30; memory->reserved = 1ULL << 30; memory->used = (unsigned long long)used << 30;
    return OK;
}
#endif
int nvmlDeviceGetPowerUsage(void *gpu, unsigned *milliwatts) { READ; *milliwatts = 1000 * watts; return OK; }
"""


def stand_in(folder: Path, *flags: str) -> Mapping[str, str]:
    """Builds it; returns the environment in which programs find it. Its numbers: `set_gpus` in the same folder.

    With ``-DOLD`` it is one of before 510, which counts the GiB that the driver keeps for itself as used.
    """
    source = folder / "nvml.c"
    source.write_text(_SOURCE, encoding="utf-8")
    target = folder / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-w", *flags, "-o", str(target), str(source)], check=True)
    return {"LD_LIBRARY_PATH": str(folder), "STAND_IN_GPUS": str(folder / "gpus")}


def set_gpus(folder: Path, *gpus: tuple[int, int, int]) -> None:
    """(percent busy, more than 100: not supported; used GiB of 80; watts) of each GPU."""
    new = folder / "gpus.new"
    new.write_text("".join(f"{busy} {used} {watts}\n" for busy, used, watts in gpus))
    new.replace(folder / "gpus")
