# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The place where test hosts live: a podman of this checkout's own, in a namespace where control groups are version 2."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
CACHE = CHECKOUT / ".cache" / "hosts"
IDENTITY = hashlib.sha256(str(CHECKOUT).encode()).hexdigest()[:8]
RUN = Path("/run/gpuops-hosts") / IDENTITY
HOLDER_FILE = CACHE / "holder"
PODMAN_ROOT = CACHE / "podman"

PACKAGES = (
    "podman runc netavark aardvark-dns iptables containernetworking-plugins mmdebstrap iproute2 openssh-client util-linux".split()
)
NEEDED = {
    "podman": ["podman"],
    "runc": ["runc"],
    "netavark": ["/usr/lib/podman/netavark", "/usr/libexec/podman/netavark", "netavark"],
    "aardvark-dns": ["/usr/lib/podman/aardvark-dns", "/usr/libexec/podman/aardvark-dns", "aardvark-dns"],
    "iptables": ["iptables"],
    "mmdebstrap": ["mmdebstrap"],
    "iproute2": ["ip"],
    "openssh-client": ["ssh"],
    "util-linux": ["nsenter"],
}

# Without a private lock file, network directory and address pool two checkouts would fight over the machine-wide ones.
PODMAN_CONFIG = """\
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
[network]
network_backend = "netavark"
network_config_dir = "{run}/networks"
default_subnet = "10.{second}.0.0/24"
default_subnet_pools = [{{"base" = "10.{second}.0.0/16", "size" = 24}}]
"""

# Podman keeps the name server's and the address book's files in one place for the whole machine; here they get a place of their own.
NAMESPACE = """\
set -e
umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /run/containers/networks
mount -t tmpfs none /run/containers/networks
echo ready
exec -a gpuops-hosts-namespace sleep infinity
"""


class HostsError(Exception):
    """Something the person at the keyboard has to know; shown without a traceback."""


def say(text: str) -> None:
    print(f"hosts: {text}", file=sys.stderr, flush=True)


def run(argv: list[str], check: bool = True, **options) -> subprocess.CompletedProcess:
    if "input" not in options:
        options["stdin"] = subprocess.DEVNULL
    done = subprocess.run(argv, text=True, capture_output=True, check=False, **options)
    if check and done.returncode:
        raise HostsError(f"{' '.join(map(str, argv))} ended with {done.returncode}:\n{(done.stderr or done.stdout).strip()}")
    return done


@contextlib.contextmanager
def lock(name: str):
    """Keeps two commands of one checkout from doing the same step at once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{name}.lock", "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def missing_packages() -> list[str]:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return [package for package, places in NEEDED.items() if not any(shutil.which(place, path=path) for place in places)]


def ensure_packages() -> None:
    missing = missing_packages()
    install = "apt-get install --no-install-recommends " + " ".join(PACKAGES)
    if os.geteuid() != 0:
        wanted = f" Packages missing: {' '.join(missing)}; install them with: sudo {install}" if missing else ""
        raise HostsError(f"booting systemd hosts takes root; run this with sudo.{wanted}")
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise HostsError(f"these are missing: {' '.join(missing)}. On Debian: {install}")
    say(f"installing {' '.join(missing)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update"], env=environment)
    run(["apt-get", "install", "--yes", "--no-install-recommends", *PACKAGES], env=environment)


def start_time(pid: int) -> str:
    """A pid with its start time names one process for good; empty when it is gone, or dead and not yet reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def holder() -> tuple[int, str, str]:
    """Process, its start time and its namespace, as written down when it was started."""
    try:
        pid, started, namespace = HOLDER_FILE.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return 0, "-", "-"
    return int(pid), started, namespace


def holder_pid() -> int | None:
    pid, started, _namespace = holder()
    return pid if start_time(pid) == started else None


def plain_cgroup2() -> bool:
    return run(["stat", "-fc", "%T", "/sys/fs/cgroup"]).stdout.strip() == "cgroup2fs"


def start_holder() -> None:
    """Opens the private mount namespace and leaves one sleeping process in it, which later commands follow in."""
    process = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "bash", "-c", NAMESPACE],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True, cwd="/",
    )
    answer = process.stdout.readline().strip()
    if answer != "ready":
        raise HostsError(f"no cgroup version 2 to be had in a private mount namespace: {answer}{process.stdout.read()}")
    namespace = os.readlink(f"/proc/{process.pid}/ns/mnt")
    HOLDER_FILE.write_text(f"{process.pid} {start_time(process.pid)} {namespace}\n", encoding="utf-8")


class World:
    """Runs podman for this checkout and keeps what it needs alive."""

    def __init__(self) -> None:
        ensure_packages()
        self.enter: list[str] = []
        self.config = RUN / "containers.conf"
        with lock("world"):
            self._users = open(CACHE / "users.lock", "w", encoding="utf-8")  # held until the command ends
            fcntl.flock(self._users, fcntl.LOCK_SH)
            self._open()

    def _open(self) -> None:
        private = not plain_cgroup2()
        fresh = not self.config.exists() or (private and holder_pid() is None)
        if fresh:
            self._remove_leftovers()
            shutil.rmtree(RUN, ignore_errors=True)
            (RUN / "networks").mkdir(parents=True)
            self.config.write_text(PODMAN_CONFIG.format(run=RUN, second=100 + int(IDENTITY, 16) % 100), encoding="utf-8")
        if private:
            if fresh:
                start_holder()
            self.enter = ["nsenter", f"--mount=/proc/{holder_pid()}/ns/mnt", "--"]
        if fresh:
            # With its run-time state gone podman takes every container for stopped, as after a boot, and lets it be removed.
            for name in self.podman("ps", "--all", "--format", "{{.Names}}").stdout.split():
                self.podman("rm", "--force", "--time", "0", name, check=False)

    def _remove_leftovers(self) -> None:
        """Ends what an interrupted run left of this checkout's hosts, and takes their bridges down."""
        containers = [folder.name for folder in (PODMAN_ROOT / "overlay-containers").glob("?" * 64)]
        _pid, _started, namespace = holder()
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                groups = (entry / "cgroup").read_text(encoding="utf-8")
                if os.readlink(entry / "ns" / "mnt") == namespace or any(container in groups for container in containers):
                    os.kill(int(entry.name), signal.SIGKILL)
        for network in (RUN / "networks").glob("*.json"):
            bridge = json.loads(network.read_text(encoding="utf-8"))["network_interface"]
            run(["ip", "link", "delete", bridge], check=False)

    def command(self, *arguments: str) -> list[str]:
        places = ["--root", str(PODMAN_ROOT), "--runroot", str(RUN / "run"), "--tmpdir", str(RUN / "tmp")]
        return [*self.enter, "env", f"CONTAINERS_CONF={self.config}", "podman", *places, *arguments]

    def podman(self, *arguments: str, check: bool = True, **options) -> subprocess.CompletedProcess:
        return run(self.command(*arguments), check=check, **options)

    def has_memory_limits(self) -> bool:
        controllers = run([*self.enter, "cat", "/sys/fs/cgroup/cgroup.controllers"], check=False).stdout
        return "memory" in controllers.split()

    def close_if_empty(self) -> None:
        """With the last host gone, and no other command at work, nothing of this tool stays behind but the image."""
        with lock("world"):
            try:
                fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            if self.podman("ps", "--all", "--quiet").stdout.strip():
                return
            self._remove_leftovers()
            deadline = time.monotonic() + 5
            while holder_pid() is not None and time.monotonic() < deadline:
                time.sleep(0.02)
            HOLDER_FILE.unlink(missing_ok=True)
            shutil.rmtree(RUN, ignore_errors=True)
