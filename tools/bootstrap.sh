#!/usr/bin/env bash
# Brings what pip cannot: a C++ compiler, the linker, make, and Python with venv and headers.
#
# In:  $1, the Python to build with (default: $PYTHON, else python3).
# Out: nothing, when everything is there. As root on Debian what is missing is installed with apt; otherwise one message
#      names it with the command, and the exit code is 1.
set -euo pipefail

python=${1:-${PYTHON:-python3}}

missing_packages() {
  command -v make >/dev/null || echo make
  command -v g++ >/dev/null || echo g++
  command -v "${PYTORCHSIM_LLD:-ld.lld}" >/dev/null || echo lld
  if ! command -v "$python" >/dev/null; then
    # Only Debian's own python3 comes from apt; another one that was asked for by name is reported below.
    if [ "$python" = python3 ]; then echo python3 python3-venv python3-dev; fi
    return
  fi
  "$python" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
  "$python" -c 'import os, sys, sysconfig as s; sys.exit(not os.path.exists(os.path.join(s.get_path("include"), "Python.h")))' ||
    echo python3-dev
}

install_with_apt() {
  local log
  log=$(mktemp)
  echo "bootstrap: installing with apt: $*"
  if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    echo "bootstrap: apt-get failed, see above." >&2
    exit 1
  fi
  rm -f "$log"
}

# Word splitting is meant: a list of package names.
# shellcheck disable=SC2207
packages=($(missing_packages))
if [ ${#packages[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    install_with_apt "${packages[@]}"
    # shellcheck disable=SC2207
    packages=($(missing_packages))
  else
    echo "bootstrap: missing: ${packages[*]}. Install with:" >&2
    echo "    sudo apt-get install -y ${packages[*]}" >&2
    echo "(Debian's package names; elsewhere install the equivalent), then run make again." >&2
    exit 1
  fi
fi
if [ ${#packages[@]} -gt 0 ]; then
  # Debian's packages belong to Debian's Python only.
  echo "bootstrap: $(command -v "$python" || echo "$python") still lacks: ${packages[*]}." >&2
  echo "If it is not Debian's own Python, choose another one: make PYTHON=/usr/bin/python3 ..." >&2
  exit 1
fi
if ! command -v "$python" >/dev/null; then
  echo "bootstrap: there is no '$python'. Choose a Python with: make PYTHON=/usr/bin/python3 ..." >&2
  exit 1
fi
if ! "$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] < (3, 15))'; then
  echo "bootstrap: $("$python" --version) at $(command -v "$python"): PyTorchSim needs Python 3.10 to 3.14." >&2
  echo "Choose one with: make PYTHON=/usr/bin/python3.11 ..." >&2
  exit 1
fi
gxx_major=$(g++ -dumpversion | cut -d. -f1)
if [ "$gxx_major" -lt 11 ]; then
  echo "bootstrap: g++ $gxx_major is too old: the engine is C++20, g++ 11 or newer is needed." >&2
  exit 1
fi
