#!/usr/bin/env bash
# Copyright: (c) 2026, gpuops.sglang contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Boots the demo's host and runs a short campaign of four strategies on it with the ordinary playbook. Run by `make demo-compare`.
set -euo pipefail
cd "$(dirname "$0")/.."

tests/hosts/hosts up --set demo gpu-demo
export SGLANG_REPORT_DIR=$PWD/.cache/report/compare
ansible-playbook -i inventories/demo -e @tests/demo_compare.yml playbooks/compare.yml "$@"
echo "The report: $SGLANG_REPORT_DIR/report.html (.md, .csv and .json beside it). Remove the host: make demo-down"
