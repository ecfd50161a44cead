# Copyright: (c) 2026, gpuops.sglang contributors
# GNU General Public License v3.0 or later (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the options that say where a server answers, and with which key."""

from __future__ import annotations


class ModuleDocFragment:

    DOCUMENTATION = r"""
options:
  host:
    description:
      - Address to send requests to, as seen from the node.
      - The addresses that mean every interface, V(0.0.0.0) and V(::), are asked over the loopback.
    type: str
    default: 127.0.0.1
  port:
    description: Port of the server's HTTP endpoint.
    type: int
    default: 30000
  scheme:
    description: Whether the server speaks plain HTTP or TLS.
    type: str
    choices: [http, https]
    default: http
  ca_path:
    description:
      - File with the certificates to trust, on the node.
      - Without it the certificates that C(requests) trusts are used.
    type: path
  api_key:
    description:
      - Key that the server was started with; sent as a bearer token to the server itself and shown nowhere.
    type: str
  model:
    description:
      - Identifier of the model that the server must list under C(/v1/models), its served name.
      - Without it any model is accepted.
    type: str
"""
