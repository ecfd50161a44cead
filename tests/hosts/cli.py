# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of the test hosts: image, up, down, ps, ssh, exec, inventory, net, and what power cords do."""

from __future__ import annotations

import argparse
import os
import sys

from image import RELEASES, ensure_image
from machines import HostSet
from world import PODMAN_ROOT, HostsError, World


def parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--set", default=os.environ.get("HOSTS_SET", "default"), help="which set of hosts (default: $HOSTS_SET or 'default')")
    top = argparse.ArgumentParser(prog="hosts", description="Systemd hosts for demo and tests, reached over ssh. All state lies in .cache/hosts/.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, parents=[common], help=text, description=text)

    add("image", "build the image of a release, if it is not there").add_argument("release", nargs="?", default=RELEASES[0], choices=RELEASES)
    up = add("up", "boot hosts; one that runs already is left as it is")
    up.add_argument("names", nargs="*", default=[], metavar="NAME")
    up.add_argument("--name", action="append", default=[], help="the same as NAME")
    up.add_argument("--release", default=RELEASES[0], choices=RELEASES)
    up.add_argument("--no-gpu", dest="gpu", action="store_false", help="without pretended nvidia-smi and model")
    up.add_argument("--shm-size", default="64m")
    up.add_argument("--memory", help="memory limit, where the machine can set one")
    up.add_argument("--volume", action="append", default=[], metavar="HERE:THERE[:ro]")
    up.add_argument("--tmpfs", action="append", default=[], metavar="PATH:OPTIONS", help="for example /small:size=8m, a disk that fills up")
    add("down", "remove hosts of a set, all by default").add_argument("names", nargs="*", metavar="NAME")
    add("down-all", "remove the hosts of every set of this checkout")
    add("ps", "list the hosts of every set")
    add("inventory", "print the path of the set's inventory file")
    for name, text in (
        ("ssh", "run a command over ssh, or log in"), ("exec", "run a command without ssh"),
        ("net", "run this machine's iptables, tc or ip in the network of the host"),
    ):
        command = add(name, text)
        command.add_argument("name", metavar="NAME")
        command.add_argument("argv", nargs=argparse.REMAINDER, metavar="CMD")
    for verb in ("pause", "unpause", "kill", "stop", "start"):
        add(verb, f"{verb} hosts").add_argument("names", nargs="+", metavar="NAME")
    return top


def down_all(world: World) -> None:
    sets = world.podman("ps", "--all", "--format", '{{index .Labels "gpuops.set"}}').stdout.split()
    for name in sorted(set(sets)):
        HostSet(world, name).down([])


def show(world: World) -> None:
    template = '{{index .Labels "gpuops.set"}}\t{{index .Labels "gpuops.host"}}\t{{.State}}\t{{.Image}}'
    for line in sorted(world.podman("ps", "--all", "--format", template).stdout.splitlines()):
        name, host, state, image = line.split("\t")
        address = HostSet(world, name).addresses().get(host, "")
        print(f"{name:<20} {host:<20} {state:<10} {address:<16} {image.rpartition(':')[2]}")


def carry_out(world: World, arguments: argparse.Namespace) -> int:
    hosts = HostSet(world, arguments.set)
    command = arguments.command
    if command == "image":
        print(ensure_image(world, arguments.release))
    elif command == "up":
        names = arguments.names + arguments.name
        if not names:
            raise HostsError("which hosts? give at least one name")
        hosts.up(names, arguments)
    elif command == "down":
        hosts.down(arguments.names)
    elif command == "down-all":
        down_all(world)
    elif command == "ps":
        show(world)
    elif command == "inventory":
        if not hosts.inventory.exists():
            raise HostsError(f"set {arguments.set} has no hosts up")
        print(hosts.inventory)
    elif command == "ssh":
        hosts.record(arguments.name)
        os.execvp("ssh", ["ssh", "-F", str(hosts.ssh_config), arguments.name, *arguments.argv])
    elif command == "exec":
        argv = hosts.exec_argv(arguments.name, arguments.argv)
        os.execvp(argv[0], argv)
    elif command == "net":
        return hosts.in_network(arguments.name, arguments.argv)
    else:
        hosts.state(command, arguments.names)
    return 0


def main() -> int:
    arguments = parser().parse_args()
    if arguments.command in ("down", "down-all") and not PODMAN_ROOT.exists():
        return 0  # never has a host been up here
    world = World()
    try:
        return carry_out(world, arguments)
    finally:
        world.close_if_empty()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HostsError as error:
        print(f"hosts: {error}", file=sys.stderr)
        sys.exit(1)
