#!/usr/bin/env bash
# Copyright: (c) 2026, gpuops.sglang contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Boots the demo's host, deploys EP8 on it and measures it with the ordinary playbooks, and says how to call what serves there. Run by `make demo`.
set -euo pipefail
cd "$(dirname "$0")/.."

tests/hosts/hosts up --set demo gpu-demo
export SGLANG_REPORT_DIR=$PWD/.cache/report/demo
ansible-playbook -i inventories/demo tests/demo.yml "$@"

address=$(awk '/HostName/ {print $2; exit}' .cache/hosts/demo/ssh_config)
cat << TEXT

gpu-demo serves kimi-k2.6 under ep8 at http://$address:30001 (by the stand-in server: same interface, no model). Call it:

  curl http://$address:30001/v1/models
  curl http://$address:30001/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"model": "kimi-k2.6", "max_tokens": 16, "messages": [{"role": "user", "content": "Hello"}]}'

Look around:        tests/hosts/hosts ssh --set demo gpu-demo systemctl status sglang-k26-ep8
Another strategy:   .cache/venv/bin/ansible-playbook -i inventories/demo playbooks/deploy_tp8.yml
Remove the host:    make demo-down
TEXT
