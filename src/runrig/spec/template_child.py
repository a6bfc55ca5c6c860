"""Renders one template in its own process with tight limits. Started by `runrig.spec.template`, never imported.

stdin: {"template", "variables"}; stdout: {"text", "used": the variables it names} or {"error", "line"}, both JSON.
Without "variables" it renders nothing and omits "text". The kernel kills it if it is too slow. The only argument is the
folder of jinja2; runrig cannot be imported here.
"""

import json
import resource
import signal
import sys
import traceback

CPU_S = 0.5
WALL_S = 5.0  # A template cannot sleep. This is for a machine too busy to give it 0.5 s of processor time.
MEMORY_BYTES = 100 * 1024 * 1024
OUTPUT_CHARACTERS = 1024 * 1024
NAME = "<template>"


def _limit() -> None:
    """Limits time, memory beyond the interpreter's, files and processes from here on."""
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    signal.setitimer(signal.ITIMER_REAL, WALL_S)
    held = 0
    try:
        with open("/proc/self/statm") as statm:
            held = int(statm.read().split()[0]) * resource.getpagesize()
    except OSError:
        held = 512 * 1024 * 1024  # Not Linux: the interpreter's own share is unknown, so allow plenty.
    wanted = {resource.RLIMIT_AS: held + MEMORY_BYTES, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_CORE: 0}
    for kind, amount in wanted.items():
        most = resource.getrlimit(kind)[1]
        amount = amount if most == resource.RLIM_INFINITY else min(amount, most)
        resource.setrlimit(kind, (amount, amount))


def _render(template: str, variables: dict[str, object] | None) -> dict[str, object]:
    from jinja2 import StrictUndefined
    from jinja2.exceptions import TemplateError, TemplateSyntaxError
    from jinja2.meta import find_undeclared_variables
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    try:
        environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, cache_size=0)
        used = sorted(find_undeclared_variables(environment.parse(template)))
        if variables is None:
            return {"used": used}
        parts, size = [], 0
        for part in environment.from_string(template).generate(variables):
            size += len(part)
            if size > OUTPUT_CHARACTERS:
                return {"error": f"the result is longer than {OUTPUT_CHARACTERS:,} characters", "line": None}
            parts.append(part)
        return {"text": "".join(parts), "used": used}
    except TemplateSyntaxError as error:
        return {"error": error.message or "not valid", "line": error.lineno, "syntax": True}
    except MemoryError:
        return {"error": f"it needs more than {MEMORY_BYTES // 2**20} MiB of memory", "line": None}
    except RecursionError:
        return {"error": "it is nested too deeply", "line": None}
    except TemplateError as error:
        return {"error": error.message or type(error).__name__, "line": _line(error)}
    except Exception as error:  # noqa: BLE001  a template can raise anything
        return {"error": f"{type(error).__name__}: {error}"[:500], "line": _line(error)}


def _line(error: Exception) -> int | None:
    """Returns the line of the template that raised, which jinja2 adds to the traceback."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == NAME]
    return lines[-1] if lines else None


def main() -> None:
    sys.path.append(sys.argv[1])
    import jinja2.meta  # Imported before the limits, so that they cover only the rendering.
    import jinja2.sandbox  # noqa: F401

    request = json.load(sys.stdin)
    _limit()
    json.dump(_render(request["template"], request.get("variables")), sys.stdout)


if __name__ == "__main__":
    main()
