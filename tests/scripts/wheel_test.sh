#!/usr/bin/env bash
# wheel_test.sh SCRIPT WORK_DIR: which Python scripts/wheel builds with.
set -euo pipefail

script=$1 work=$2
rm -rf "$work"
mkdir -p "$work/scripts" "$work/bin" "$work/pyenv/versions/3.12.7/bin"
cp "$script" "$work/scripts/wheel"

fail() {
  echo "wheel: $1" >&2
  exit 1
}
# fake PLACE STATUS: a Python that says by its status whether it can build for the stable ABI
fake() {
  printf '#!/bin/sh\nexit %s\n' "$2" >"$1"
  chmod +x "$1"
}
# No other Python may be found: the PATH has only the few tools that the script needs.
for tool in bash dirname; do ln -s "$(command -v $tool)" "$work/bin/$tool"; done
chosen() { PATH=$work/bin PYENV_ROOT=$work/pyenv "$@" "$work/scripts/wheel" --python; }
fake "$work/bin/python3" 1
[[ $(chosen "$work/bin/bash") == python3 ]] || fail "without a Python of 3.12 or newer it is python3"
fake "$work/pyenv/versions/3.12.7/bin/python3" 0
[[ $(chosen "$work/bin/bash") == "$work/pyenv/versions/3.12.7/bin/python3" ]] || fail "pyenv's is found"
fake "$work/bin/python3.14" 0
fake "$work/bin/python3.12" 1
[[ $(chosen "$work/bin/bash") == python3.14 ]] || fail "those on the PATH come first, if they run"
fake "$work/bin/python3" 0
[[ $(chosen "$work/bin/bash") == python3 ]] || fail "python3 is taken if it is new enough"
[[ $(PYTHON=python3.9 chosen "$work/bin/bash") == python3.9 ]] || fail "PYTHON decides"
status=0
"$work/scripts/wheel" --none 2>"$work/err" || status=$?
[[ $status == 2 ]] || fail "an unknown argument is refused"
grep -q "expected --python or nothing, got '--none'" "$work/err" || fail "the argument must be named"
