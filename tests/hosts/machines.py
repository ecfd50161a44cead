# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets of booted hosts: starts them, waits until systemd and sshd are up, and tells Ansible and ssh where they are."""

from __future__ import annotations

import io
import json
import os
import re
import resource
import subprocess
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from image import ensure_image
from world import CACHE, CHECKOUT, IDENTITY, HostsError, World, lock, run, say

HERE = Path(__file__).resolve().parent
MODEL = "/srv/models/kimi-k2.6"
KEY = CACHE / "id_ed25519"
CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
FAKE_NVIDIA_SMI = CHECKOUT / "tests" / "mock_sglang" / "bin" / "nvidia-smi"
BOOT_SECONDS = 90
NAME = re.compile(r"[a-z0-9][a-z0-9-]*\Z")


def add_file(tar: tarfile.TarFile, path: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(path.lstrip("/"))
    entry.size, entry.mode, entry.mtime = len(content), mode, int(time.time())
    tar.addfile(entry, io.BytesIO(content))


def ensure_key() -> None:
    with lock("key"):
        if not KEY.exists():
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "gpuops test hosts", "-f", str(KEY)])


class HostSet:
    """The hosts of one purpose (the demo, one scenario): own names, own network, own inventory file."""

    def __init__(self, world: World, name: str) -> None:
        if not NAME.match(name):
            raise HostsError(f"a set is named with lower-case letters, digits and dashes, not {name!r}")
        self.world = world
        self.name = name
        self.folder = CACHE / name
        self.ssh_config = self.folder / "ssh_config"
        self.inventory = self.folder / "inventory.yml"
        self.network = f"{IDENTITY}-{name}"

    def container(self, host: str) -> str:
        return f"{self.name}.{host}"

    def records(self) -> list[dict]:
        """What podman knows of each host of this set, stopped ones too."""
        names = self.world.podman("ps", "--all", "--quiet", "--filter", f"label=gpuops.set={self.name}").stdout.split()
        if not names:
            return []
        return json.loads(self.world.podman("inspect", *names).stdout)

    def addresses(self) -> dict[str, str]:
        found = {}
        for record in self.records():
            networks = record["NetworkSettings"]["Networks"] or {}
            found[record["Config"]["Labels"]["gpuops.host"]] = next((each["IPAddress"] for each in networks.values()), "")
        return dict(sorted(found.items()))

    def record(self, host: str) -> dict:
        for record in self.records():
            if record["Config"]["Labels"]["gpuops.host"] == host:
                return record
        raise HostsError(f"set {self.name} has no host {host}; it has: {', '.join(self.addresses()) or 'none'}")

    def up(self, hosts: list[str], options) -> None:
        for host in hosts:
            if not NAME.match(host):
                raise HostsError(f"a host is named with lower-case letters, digits and dashes, not {host!r}")
        ensure_key()
        image = ensure_image(self.world, options.release)
        started = time.monotonic()
        with lock(f"set-{self.name}"):
            if self.world.podman("network", "exists", self.network, check=False).returncode:
                self.world.podman("network", "create", self.network)
            standing = {record["Config"]["Labels"]["gpuops.host"]: record for record in self.records()}
            for host in hosts:
                if host in standing and standing[host]["State"]["Status"] == "running":
                    continue
                if host in standing:
                    self.world.podman("rm", "--force", "--time", "0", self.container(host))
                self._boot(host, image, options)
            self.write_files()
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda host: self._wait(host, options.gpu), hosts))
        say(f"{', '.join(hosts)} up in {time.monotonic() - started:.1f} s ({options.release}); ssh configuration in {self.ssh_config}")

    def _boot(self, host: str, image: str, options) -> None:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        nofile = 1048576 if limit == resource.RLIM_INFINITY else min(limit, 1048576)
        arguments = [
            "run", "--detach", "--name", self.container(host), "--hostname", host, "--network", self.network, "--network-alias", host,
            "--label", f"gpuops.set={self.name}", "--label", f"gpuops.host={host}", "--systemd=always", "--pids-limit=0", "--cap-add", "SYS_PTRACE",
            "--ulimit", f"nofile={nofile}:{nofile}", "--ulimit", "nproc=4000:4000", "--shm-size", options.shm_size,
            "--volume", f"{KEY}.pub:/etc/ssh/authorized_keys:ro",
        ]
        if CA_BUNDLE.exists():
            arguments += ["--volume", f"{CA_BUNDLE}:{CA_BUNDLE}:ro"]
        if options.memory:
            if self.world.has_memory_limits():
                arguments += ["--memory", options.memory]
            else:
                say(f"no memory controller in this machine's cgroup version 2: {host} runs without its limit of {options.memory}")
        for volume in options.volume:
            arguments += ["--volume", volume]
        for tmpfs in options.tmpfs:
            arguments += ["--tmpfs", tmpfs]
        self.world.podman(*arguments, image, "/sbin/init")

    def _wait(self, host: str, gpu: bool) -> None:
        deadline = time.monotonic() + BOOT_SECONDS
        while True:
            done = self.ssh_run(host, "systemctl is-system-running --wait")
            state = done.stdout.strip()
            if state in ("running", "degraded"):
                break
            if time.monotonic() > deadline:
                log = self.world.podman("exec", self.container(host), "journalctl", "--no-pager", "-n", "20", check=False)
                raise HostsError(f"{host} did not boot within {BOOT_SECONDS} s: {state or done.stderr.strip()}\n{log.stdout}{log.stderr}")
            time.sleep(0.1)
        if state == "degraded":
            failed = self.ssh_run(host, "systemctl --failed --no-legend --plain").stdout
            raise HostsError(f"{host} booted, but these units failed:\n{failed}")
        if gpu:
            self._put_gpus(host)

    def _put_gpus(self, host: str) -> None:
        """Gives the host a pretended nvidia-smi and, at MODEL, the outline of a large model: configuration and empty shards."""
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for source in sorted((HERE / "model").iterdir()):
                add_file(tar, f"{MODEL}/{source.name}", source.read_bytes(), 0o644)
            if FAKE_NVIDIA_SMI.exists():
                script = FAKE_NVIDIA_SMI.read_bytes()
                add_file(tar, "/usr/bin/nvidia-smi", script if script.startswith(b"#!") else b"#!/usr/bin/python3\n" + script, 0o755)
            else:
                say(f"no {FAKE_NVIDIA_SMI.relative_to(CHECKOUT)}: {host} has no pretended GPUs")
        command = self.world.command("exec", "--interactive", self.container(host), "tar", "--extract", "--directory=/", "--file=-")
        done = subprocess.run(command, input=archive.getvalue(), capture_output=True, check=False)
        if done.returncode:
            raise HostsError(f"{host} did not take its pretended GPUs: {done.stderr.decode(errors='replace').strip()}")

    def ssh_run(self, host: str, command: str, check: bool = False, **options) -> subprocess.CompletedProcess:
        return run(["ssh", "-F", str(self.ssh_config), "-o", "ConnectTimeout=5", host, command], check=check, **options)

    def write_files(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        addresses = self.addresses()
        ssh_lines = []
        inventory_lines = ["all:", "  hosts:" if addresses else "  hosts: {}"]
        for host, address in addresses.items():
            ssh_lines += [f"Host {host}", f"  HostName {address}"]
            inventory_lines += [f"    {host}:", f"      ansible_host: {address or 'stopped'}"]
        ssh_lines += [
            "Host *", "  User root", f"  IdentityFile {KEY}", "  IdentitiesOnly yes", "  StrictHostKeyChecking no",
            "  UserKnownHostsFile /dev/null", "  LogLevel ERROR", "  BatchMode yes",
        ]
        inventory_lines += [
            "  vars:", "    ansible_user: root", "    ansible_python_interpreter: /usr/bin/python3",
            f"    ansible_ssh_common_args: -F {self.ssh_config}",
        ]
        self.ssh_config.write_text("\n".join(ssh_lines) + "\n", encoding="utf-8")
        self.inventory.write_text("\n".join(inventory_lines) + "\n", encoding="utf-8")

    def down(self, hosts: list[str]) -> None:
        with lock(f"set-{self.name}"):
            standing = self.addresses()
            unknown = [host for host in hosts if host not in standing]
            if unknown:
                say(f"not there: {', '.join(unknown)}")
            going = [host for host in standing if not hosts or host in hosts]
            for host in going:
                self.world.podman("unpause", self.container(host), check=False)
                self.world.podman("rm", "--force", "--time", "0", "--volumes", self.container(host))
            if len(going) == len(standing):
                self.world.podman("network", "rm", "--force", self.network, check=False)
                for path in (self.ssh_config, self.inventory):
                    path.unlink(missing_ok=True)
            else:
                self.write_files()
        if going:
            say(f"removed {', '.join(going)}")

    def state(self, verb: str, hosts: list[str]) -> None:
        """pause, unpause, kill, stop or start: what power cords and hypervisors do to a host."""
        for host in hosts:
            self.record(host)
            self.world.podman(verb, self.container(host))
        if verb == "start":
            with lock(f"set-{self.name}"):
                self.write_files()
            for host in hosts:
                self._wait(host, gpu=False)

    def in_network(self, host: str, command: list[str]) -> int:
        """Runs this machine's own iptables, tc or ip inside the network of the host, which itself may not change it."""
        pid = self.record(host)["State"]["Pid"]
        return subprocess.run([*self.world.enter, "nsenter", "--target", str(pid), "--net", "--", *command], check=False).returncode

    def exec_argv(self, host: str, command: list[str]) -> list[str]:
        terminal = ["--interactive", "--tty"] if os.isatty(0) and os.isatty(1) else ["--interactive"]
        return self.world.command("exec", *terminal, self.container(host), *command)
