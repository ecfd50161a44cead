#!/usr/bin/env bash
# Copyright: (c) 2026, gpuops.sglang contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Every playbook passes ansible's own syntax check with every inventory that ships.
set -euo pipefail
cd "$(dirname "$0")/../.."

status=0
playbooks=(playbooks/*.yml)
for inventory in inventories/*/hosts.yml inventories/examples/*/hosts.yml; do
  [ -e "$inventory" ] || continue
  if ! output=$(ansible-playbook --syntax-check --inventory "$(dirname "$inventory")" "${playbooks[@]}" 2>&1 < /dev/null); then
    status=1
    printf '%s with %s\n' "$output" "$inventory"
  fi
  echo "$inventory: ${#playbooks[@]} playbooks read"
done
exit $status
