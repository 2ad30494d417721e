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

# Tests that use a device are built and run by make test-cuda.
root=$(dirname "$makefile")
cuda=$(plan test-cuda)
folders=$(grep -rlE 'test_device\(|on_cpu\(|RAPT_TEST_DEVICE' --include='*_test.cc' "$root/tests" | sed "s|^$root/tests/||; s|/.*||" | sort -u)
[[ $folders == *distributed* ]] || fail "expected folders with tests of a device, got $folders"
for folder in $folders; do
  [[ $cuda == *" rapt_${folder}_test "* ]] || fail "make test-cuda does not build rapt_${folder}_test: $cuda"
  grep -q "^gtest $folder " "$root/scripts/test_cuda" || fail "scripts/test_cuda does not run rapt_${folder}_test"
done

# Without a target make shows its list, which builds nothing.
if bare=$(cd "$(dirname "$makefile")" && grep -nE '(^ +|&& )make *(#.*)?$' README.md CONTRIBUTING.md docs/*.md examples/*/README.md); then
  fail "expected make with a target in the documentation, got $bare"
fi
