#!/usr/bin/env bash
# makefile_test.sh MAKEFILE FOLDER: what the usual targets would do, by make -n.
set -euo pipefail

makefile=$1

fail() {
  echo "makefile: $*" >&2
  exit 1
}

plan() { env -u MAKEFLAGS -u MAKELEVEL make -n --no-print-directory -C "$(dirname "$makefile")" -f "$makefile" "$1"; }

run=$(plan run)
builds=$(grep -- '--build' <<<"$run") || fail "make run builds nothing: $run"
[[ $builds == *" --target rapt_cli" && $builds != *$'\n'* ]] || fail "make run builds more than the tool: $builds"
[[ $run == *"rapt reproduce --quick --out build/reproduce"* ]] || fail "make run does not write the report: $run"
# What takes minutes says so before it starts.
[[ $run == *'echo "Building the tool; '*' minutes'*"$builds"* ]] || fail "make run does not say what it builds: $run"

tests=$(plan test)
[[ $tests == 'echo "Building '*" minutes"* ]] || fail "make test does not begin with what it builds: $tests"
[[ $tests == *'echo "Running the tests; about '*" minutes"*scripts/run_tests* ]] ||
  fail "make test does not say that it runs the tests: $tests"

# Without a target make shows its list, which builds nothing.
if bare=$(cd "$(dirname "$makefile")" && grep -nE '(^ +|&& )make *(#.*)?$' README.md CONTRIBUTING.md docs/*.md examples/*/README.md); then
  fail "expected make with a target in the documentation, got $bare"
fi
