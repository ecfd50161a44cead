#!/usr/bin/env bash
# Copyright: (c) 2026, gpuops.sglang contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Everything that can be said of the collection without running it. Run by `make test-lint`; lint.sh NAME … runs only these.
set -euo pipefail
cd "$(dirname "$0")/../.."

checks=(
  "yamllint=yamllint --strict ."
  "ansible-lint=ansible-lint --nocolor --offline --profile production -q"
  "licences=python tests/checks/licences.py"
  "role-options=python tests/checks/role_options.py"
  "playbooks=tests/checks/playbooks.sh"
  "documentation=python tests/checks/documentation.py"
  "changelog=antsibull-changelog lint"
  "package=tests/checks/package.sh"
)
chosen=()
for check in "${checks[@]}"; do
  if [ $# -eq 0 ] || [[ " $* " == *" ${check%%=*} "* ]]; then
    chosen+=("$check")
  fi
done
exec python tests/run.py "${chosen[@]}"
