#!/usr/bin/env bash
# Copyright: (c) 2026, gpuops.sglang contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Builds the collection from the tracked files, installs it somewhere new, runs a playbook of it by name, and lets galaxy-importer look at it.
set -euo pipefail
cd "$(dirname "$0")/../.."
checkout=$PWD
work=$checkout/.cache/package
rm -rf "$work"
mkdir -p "$work/source" "$work/collections" "$work/importer"

git ls-files -z --cached --others --exclude-standard -- . ':!playbooks/collections' |
  tar --create --null --ignore-failed-read --files-from=- 2> /dev/null | tar --extract --directory="$work/source"
ansible-galaxy collection build --force --output-path "$work" "$work/source"
tarball=$(ls "$work"/gpuops-sglang-*.tar.gz)

cd "$work"
unset ANSIBLE_CONFIG
export ANSIBLE_COLLECTIONS_PATH=$work/collections
ansible-galaxy collection install --offline --collections-path "$work/collections" "$tarball"
ansible-playbook --syntax-check --inventory localhost, gpuops.sglang.deploy_ep8 gpuops.sglang.stop

cat > "$work/importer/galaxy-importer.cfg" << 'CONFIG'
[galaxy-importer]
run_ansible_doc = True
run_ansible_lint = False
run_ansible_test = False
check_required_tags = True
infra_osd = False
ansible_local_tmp = ~/.ansible/tmp
CONFIG
cd "$work/importer"
GALAXY_IMPORTER_CONFIG=$work/importer/galaxy-importer.cfg python -m galaxy_importer.main "$tarball" 2>&1 | tee importer.log
if grep -E '^(ERROR|WARNING)' importer.log; then
  echo "galaxy-importer is not content: see above"
  exit 1
fi
