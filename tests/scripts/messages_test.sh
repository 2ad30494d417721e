#!/usr/bin/env bash
# messages_test.sh SCRIPT WORK_DIR: what scripts/messages finds, and that the sources have none of it.
set -euo pipefail

script=$1 work=$2
rm -rf "$work"
mkdir -p "$work"

fail() {
  echo "messages: $1" >&2
  exit 1
}

"$script" || fail "expected messages of the form \"expected X, got Y\" in src and cli, got those above"

refused() {
  printf '%s\n' "$1" >"$work/a.cc"
  if "$script" "$work/a.cc" >"$work/out"; then fail "expected to find: $1"; fi
  grep -q "a.cc:$2: expected" "$work/out" || fail "expected line $2, got $(cat "$work/out")"
}
accepted() {
  printf '%s\n' "$1" >"$work/a.cc"
  "$script" "$work/a.cc" >"$work/out" || fail "expected no complaint about $1, got $(cat "$work/out")"
}
refused 'throw Error("curves: needs at least one series");' 1
refused $'\nif (empty)\n  throw rapt::Error(operation +\n      ": x must lie between 0 and 1");' 3
refused 'fail("there is no such step; the steps are " + known);' 1
refused 'fail("parameter m is given twice");  // a comment' 1
accepted 'throw Error("curves: expected at least one series, got none");'
accepted $'throw Error("attend: " + name +\n            ": expected what it takes, got none");'
accepted 'throw Error("write: " + std::string(std::strerror(errno)));'
accepted 'app.add_option("--x", x, "What every row needs");'
