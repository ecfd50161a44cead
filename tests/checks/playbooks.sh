#!/usr/bin/env bash
# Copyright: (c) 2026, gpuops.sglang contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Every playbook passes ansible's own syntax check with every inventory that ships.
set -euo pipefail
cd "$(dirname "$0")/../.."

status=0
for inventory in inventories/*/hosts.yml inventories/examples/*/hosts.yml; do
  [ -e "$inventory" ] || continue
  if ! output=$(ansible-playbook --syntax-check --inventory "$(dirname "$inventory")" playbooks/*.yml 2>&1 < /dev/null); then
    status=1
    printf '%s with %s\n' "$output" "$inventory"
  fi
  echo "$inventory: $(ls playbooks/*.yml | wc -l) playbooks read"
done
exit $status
