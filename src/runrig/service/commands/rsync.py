"""The rsync program in a task. It speaks over stdin and stdout, so it needs no open port and no key.

The image must contain a shell and rsync.
"""

from runrig.ports.backend import Program

WORKSPACE = "/osmo/run/workspace"
"""The root of the osmo client's rsync module. If the folder does not exist, the task's working directory is used."""
WORKSPACE_MODULE, ROOT_MODULE = "osmo", "root"

_SCRIPT = f"""
if ! command -v rsync >/dev/null; then
  echo "@RSYNCD: 31.0"
  echo "@ERROR: rsync is not installed in this task. Add it to the image (apt-get install rsync, apk add rsync)"
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
