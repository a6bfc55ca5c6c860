"""The program that speaks rsync's own protocol in a task, over its stdin and stdout: so no port has to be open, and no key laid out.

All that the image has to contain is a shell and rsync.
"""

from runrig.ports.backend import Program

WORKSPACE = "/osmo/run/workspace"
"""Where the reference client's module begins.  Where there is no such folder, that is the working directory of the task."""
WORKSPACE_MODULE, ROOT_MODULE = "osmo", "root"

_SCRIPT = f"""
if ! command -v rsync >/dev/null; then
  echo "@RSYNCD: 31.0"
  echo "@ERROR: there is no rsync in this task: its image has to contain it (apt-get install rsync, apk add rsync)"
  exit 127
fi
place={WORKSPACE}
[ -d "$place" ] || place=$(pwd)
exec rsync --server --daemon --config=/dev/fd/3 . 3<<END
use chroot = no
numeric ids = yes
log file = /dev/null
uid = $(id -u)
gid = $(id -g)
read only = no
[{WORKSPACE_MODULE}]
path = $place
[{ROOT_MODULE}]
path = /
END
"""

DAEMON = Program(("sh", "-c", _SCRIPT))
