# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the operating system image that test hosts boot: a small Debian with systemd, sshd and what SGLang's roles expect."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from pathlib import Path

from world import CACHE, HostsError, World, lock, say

RELEASES = ("bookworm", "trixie")
REPOSITORY = "localhost/gpuops-sglang-host"
INCLUDE = """
systemd systemd-sysv dbus openssh-server sudo procps iproute2 iptables curl ca-certificates kmod less
python3 python3-apt python3-venv python3-packaging python3-requests python3-jmespath libnuma1 numactl libgomp1
""".split()

SETUP = r"""
set -e
useradd --create-home --shell /bin/bash ops
echo 'ops ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/ops
chmod 0440 /etc/sudoers.d/ops
printf '%s\n' 'AuthorizedKeysFile /etc/ssh/authorized_keys' 'UseDNS no' 'MaxStartups 100' 'MaxSessions 100' > /etc/ssh/sshd_config.d/test-host.conf
printf '%s\n' 'd /run/fake-gpu 1777 root root -' > /etc/tmpfiles.d/fake-gpu.conf
mkdir -p /var/log/journal
passwd --delete root > /dev/null
systemctl set-default multi-user.target
systemctl mask getty.target console-getty.service apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
  fstrim.timer systemd-networkd-wait-online.service sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount
"""


def tag(release: str) -> str:
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    return f"{REPOSITORY}:{release}-{recipe}"


def ensure_image(world: World, release: str) -> str:
    """The name of the image, built first when this machine has none of this recipe."""
    if release not in RELEASES:
        raise HostsError(f"no release {release!r}; there are {', '.join(RELEASES)}")
    name = tag(release)
    with lock(f"image-{release}"):
        if world.podman("image", "exists", name, check=False).returncode:
            started = time.monotonic()
            say(f"building the {release} image (once, 1 to 3 minutes)")
            build(world, release, name)
            say(f"{release} image built in {time.monotonic() - started:.0f} s")
    return name


def build(world: World, release: str, name: str) -> None:
    tarball = CACHE / f"{release}.tar"
    packages = CACHE / "apt" / release
    packages.mkdir(parents=True, exist_ok=True)
    log = CACHE / f"image-{release}.log"
    command = [
        "mmdebstrap", "--variant=minbase", f"--include={','.join(INCLUDE)}",
        "--skip=download/empty", "--skip=essential/unlink",
        '--setup-hook=mkdir -p "$1/var/cache/apt/archives"',
        f"--setup-hook=sync-in '{packages}' /var/cache/apt/archives",
        f"--customize-hook=sync-out /var/cache/apt/archives '{packages}'",
        '--customize-hook=rm -rf "$1"/var/cache/apt/archives/*.deb',
        '--customize-hook=chroot "$1" bash -c "$GPUOPS_HOST_SETUP"',
        release, str(tarball),
    ]
    with open(log, "w", encoding="utf-8") as handle:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=handle, stderr=subprocess.STDOUT, check=False, cwd="/",
            env={**os.environ, "GPUOPS_HOST_SETUP": SETUP, "LC_ALL": "C"},
        )
    if done.returncode:
        last = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        raise HostsError(f"mmdebstrap could not build {release} (whole log: {log}):\n{last}")
    world.podman("import", str(tarball), name)
    tarball.unlink()
    for old in world.podman("images", "--format", "{{.Repository}}:{{.Tag}}").stdout.split():
        if old.startswith(f"{REPOSITORY}:{release}-") and old != name:
            world.podman("rmi", old, check=False)
