# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ports of a deployment: one block from its HTTP port on, with fixed places for rendezvous and NCCL."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.gpuops.sglang.plugins.module_utils._refusal import Refusal

BLOCK = 10  # HTTP, NCCL, rendezvous, six derived ports of attention data parallelism, one spare
DERIVED = 6  # ports that the server takes above the rendezvous port


def plan(port: Any, nccl: Any = None, dist: str = "", derived: bool = False) -> dict[str, Any]:
    """The ports of one deployment; ``dist`` is the address given for the rendezvous, ``derived`` whether a run above it is used."""
    http = checked(port, "port")
    if http + BLOCK - 1 > 65535:
        last = 65535 - BLOCK + 1
        raise Refusal("bad_flags", f"port {http} is too high: a deployment takes {BLOCK} ports from its HTTP port on, {last} is the last that fits")
    dist_port = checked(dist_address(dist)[1] or http + 2, "the port of dist_init_addr")
    run = range(dist_port, dist_port + (DERIVED if derived else 0) + 1)
    if http in run:
        raise Refusal("bad_flags", f"dist_init_addr takes ports {run[0]} to {run[-1]}, and {http} among them is the HTTP port")
    nccl_port = checked(nccl, "nccl-port") if nccl is not None else next(free for free in range(http + 1, http + BLOCK) if free not in run)
    if nccl_port == http or nccl_port in run:
        raise Refusal("bad_flags", f"nccl-port {nccl_port} is already the HTTP port or a port of the rendezvous")
    spans = [[http, http + BLOCK - 1]]
    spans += [[first, last] for first, last in ([run[0], run[-1]], [nccl_port, nccl_port]) if first < http or last > http + BLOCK - 1]
    return {"http": http, "dist": dist_port, "nccl": nccl_port, "first": http, "last": http + BLOCK - 1, "ranges": spans}


def checked(port: Any, what: str) -> int:
    """The port as a number, refused when it is none."""
    text = str(port).strip()
    if isinstance(port, bool) or not re.fullmatch(r"\d+", text) or not 1 <= int(text) <= 65535:
        raise Refusal("bad_flags", f"{what} must be between 1 and 65535, not {port!r}")
    return int(text)


def dist_address(address: str) -> tuple[str, str]:
    """Host and port of a rendezvous address, the port empty when it is left out."""
    if not address:
        return "", ""
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]\s]+)(?::(\d+))?", address)
    if not match:
        raise Refusal("bad_flags", f"dist_init_addr must be HOST or HOST:PORT, not {address!r}")
    return match.group(1), match.group(2) or ""


def overlap(one: dict[str, Any], other: dict[str, Any]) -> str:
    """The first run of ports that two plans share, as words; nothing when they share none."""
    for first, last in one["ranges"]:
        for others_first, others_last in other["ranges"]:
            low, high = max(first, others_first), min(last, others_last)
            if low <= high:
                return str(low) if low == high else f"{low} to {high}"
    return ""


def refuse_overlap(name: str, ports: dict[str, Any], others: dict[str, dict[str, Any]]) -> None:
    """Refuse a plan whose ports another deployment of the node has, with both names."""
    for other, its_ports in others.items():
        shared = overlap(ports, its_ports)
        if shared:
            free = 1 + max(last for its in [ports, *others.values()] for _first, last in its["ranges"])
            raise Refusal(
                "bad_flags",
                f"{name} (ports {ports['first']} to {ports['last']}) and {other} (ports {its_ports['first']} to {its_ports['last']})"
                f" overlap in {shared}: a deployment takes {BLOCK} ports from its HTTP port on, port {free} would do",
            )


def in_ephemeral_range(ports: dict[str, Any], low: int, high: int) -> str:
    """A warning when the kernel may hand one of these ports to any outgoing connection, else nothing."""
    for first, last in ports["ranges"]:
        if first <= high and last >= low:
            return (
                f"ports {first} to {last} lie in the node's ephemeral range {low} to {high} (net.ipv4.ip_local_port_range):"
                " any outgoing connection may hold one of them; choose a port below it, or reserve the block"
                f" (net.ipv4.ip_local_reserved_ports={first}-{last})"
            )
    return ""
