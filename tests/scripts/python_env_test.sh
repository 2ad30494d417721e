#!/usr/bin/env bash
# python_env_test.sh SCRIPT WORK_DIR: what scripts/python_env does where no virtual environment can be made.
set -euo pipefail

script=$1 work=$2
rm -rf "$work"
mkdir -p "$work/scripts" "$work/bin"
cp "$script" "$work/scripts/python_env"
printf '#!/bin/sh\necho "no venv here" >&2\nexit 1\n' >"$work/bin/python3"
chmod +x "$work/bin/python3"

fail() {
  echo "python_env: $1" >&2
  exit 1
}
status() {
  local result=0
  PATH=$work/bin:$PATH "$work/scripts/python_env" "$@" >"$work/out" 2>&1 || result=$?
  echo "$result"
}
[[ $(status) == 0 ]] || fail "NumPy's tests may be skipped, so this is no error"
grep -q "makes no virtual environments" "$work/out" || fail "it must say why"
[[ ! -e $work/build/python/venv ]] || fail "nothing half-made may be left"
[[ $(status --all) == 1 ]] || fail "with --all it is an error"
[[ $(status --none) == 2 ]] || fail "an unknown argument is refused"
grep -q "expected --all or nothing, got '--none'" "$work/out" || fail "the argument must be named"
