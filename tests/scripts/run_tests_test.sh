#!/usr/bin/env bash
# run_tests_test.sh RUN_TESTS FOLDER: what the script says after tests of every outcome.
set -euo pipefail

run_tests=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"

fail() {
  echo "run_tests: $*" >&2
  exit 1
}

cat >"$folder/CTestTestfile.cmake" <<'END'
add_test(passes "/bin/sh" "-c" "echo 'skipped: not this one'")
add_test(suite/without_tool "/bin/sh" "-c" "echo 'skipped: <tool> & driver: not installed'; exit 77")
set_tests_properties(suite/without_tool PROPERTIES SKIP_RETURN_CODE 77)
add_test(google "/bin/sh" "-c" "echo '/x/y.cc:3: Skipped'; echo 'there is no /dev/full'; echo; echo '[  SKIPPED ] A.B'")
add_test(silent "/bin/sh" "-c" "echo '/x/y.cc:3: Skipped'; echo; echo '[  SKIPPED ] A.B'")
add_test(python "/bin/sh" "-c" "echo '  tests/python/test_cuda.py: no GPU' >python_skipped.txt")
add_test(folder/Suite "/bin/cat" "suite_output.txt")
set_tests_properties(google silent PROPERTIES SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
END

# A suite in one entry: most of its tests run, three do not, for two reasons.
{
  for n in {1..200}; do printf '[ RUN      ] Suite.Runs%d\n[       OK ] Suite.Runs%d (0 ms)\n' "$n" "$n"; done
  for name in All/Suite.Kernels/bf16 All/Suite.Kernels/f16; do
    printf '[ RUN      ] %s\n/x/y.cc:7: Skipped\nno <bf16> here\n\n[  SKIPPED ] %s (0 ms)\n' "$name" "$name"
  done
  printf '[ RUN      ] Suite.Link\n/x/y.cc:9: Skipped\nskipped: no links here\n\n[  SKIPPED ] Suite.Link (0 ms)\n'
  for n in {1..200}; do printf '[ RUN      ] Suite.Also%d\n[       OK ] Suite.Also%d (0 ms)\n' "$n" "$n"; done
  printf '[  PASSED  ] 400 tests.\n[  SKIPPED ] 3 tests, listed below:\n[  SKIPPED ] Suite.Link\n'
} >"$folder/suite_output.txt"

expected='Skipped, so not tested here:
  suite/without_tool: <tool> & driver: not installed
  google: there is no /dev/full
  silent: it gave no reason
  folder/Suite: 2 tests: no <bf16> here
  folder/Suite.Link: no links here
  tests/python/test_cuda.py: no GPU'
output=$("$run_tests" "$folder") || fail "skipped tests count as failed: $output"
[[ $output == *$'\n'"$expected" ]] || fail "the last lines are not as expected: $output"
[[ $(<"$folder/skipped.txt") == "${expected#*$'\n'}" ]] || fail "skipped.txt has: $(<"$folder/skipped.txt")"

echo 'add_test(breaks "/bin/false")' >>"$folder/CTestTestfile.cmake"
if output=$("$run_tests" "$folder"); then fail "a failed test counts as passed"; fi
[[ $output == *$'\n'"$expected" ]] || fail "after a failure the last lines are not as expected: $output"

echo 'add_test(passes "/bin/true")' >"$folder/CTestTestfile.cmake"
output=$("$run_tests" "$folder")
[[ $output != *Skipped* && ! -s $folder/skipped.txt ]] || fail "tests are called skipped where none was: $output"
