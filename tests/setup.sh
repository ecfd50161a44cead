#!/usr/bin/env bash
# Copyright: (c) 2026, gpuops.sglang contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Builds a virtual environment: setup.sh PYTHON FOLDER REQUIREMENT…. Installs Debian's python3-venv first where it is missing.
set -euo pipefail
python=$1 folder=$2
shift 2
PATH=${PATH//"$folder/bin:"/} # the Python to build from is never the one that is being replaced

say() { printf 'setup: %s\n' "$*" >&2; }

if ! command -v "$python" > /dev/null || ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  say "Python 3.11 or newer is needed on this machine; name it with: make PYTHON=/path/to/python3"
  exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2> /dev/null; then
  if [ "$(id -u)" -eq 0 ] && command -v apt-get > /dev/null; then
    say "installing python3-venv"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq < /dev/null
    apt-get install -qq --yes --no-install-recommends python3-venv < /dev/null > /dev/null
  else
    say "Python's venv is missing; install it with: sudo apt-get install python3-venv"
    exit 1
  fi
fi
mkdir -p "$(dirname "$folder")"
exec 9> "$folder.lock"
flock 9
wanted=$("$python" --version; for word in "$@"; do if [ -f "$word" ]; then cat "$word"; else echo "$word"; fi; done)
if [ "$(cat "$folder/.made" 2> /dev/null)" = "$wanted" ]; then
  touch "$folder/.made" # another command made it meanwhile
  exit 0
fi
started=$SECONDS
rm -rf "$folder"
"$python" -m venv "$folder"
log="$folder/setup.log"
if ! "$folder/bin/python" -m pip install --disable-pip-version-check "$@" < /dev/null > "$log" 2>&1; then
  tail -n 20 "$log" >&2
  say "pip could not install: $*"
  exit 1
fi
echo "$wanted" > "$folder/.made"
say "$folder ready in $((SECONDS - started)) s"
