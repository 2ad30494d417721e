#!/usr/bin/env bash
# discover_suites_test.sh DISCOVER_SUITES FOLDER: the entries of CTest that the tests of an executable get.
set -euo pipefail

script=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"

fail() {
  echo "discover_suites: $*" >&2
  exit 1
}

cat >"$folder/program" <<'END'
#!/bin/sh
[ "$1" = --gtest_list_tests ] || { echo "ran $1"; exit 0; }
cat <<'LIST'
Running main() from gtest_main.cc
Plain.
  One
  Two
Typed/0.  # TypeParam = double
  One
Typed/1.  # TypeParam = float
  One
All/Values.
  Small/0  # GetParam() = 3
  Small/text  # GetParam() = "a;b[c] # Slow"
Mixed.
  Quick
  ThreadsShare
  SlowOne
WholeSlow.
  One
  Two
PoolThreads.
  One
  Two
Forks.
  One
  Two
LIST
END
chmod +x "$folder/program"
cat >"$folder/CTestTestfile.cmake" <<END
include("$script")
rapt_add_suites("$folder/program" folder "$folder" "Forks|Others")
END

# A line for each entry: label, name, filter.
listed=$(ctest --test-dir "$folder" --show-only=json-v1 | python3 -c '
import json, sys
for test in json.load(sys.stdin)["tests"]:
    properties = {p["name"]: p["value"] for p in test["properties"]}
    print(*properties["LABELS"], test["name"], test["command"][1].removeprefix("--gtest_filter="), sep=" | ")')
expected='plain | folder/Plain | Plain.*
plain | folder/Typed<double> | Typed/0.*
plain | folder/Typed<float> | Typed/1.*
plain | folder/All/Values | All/Values.*
plain | folder/Mixed | Mixed.Quick
slow | folder/Mixed (slow) | Mixed.SlowOne
threads | folder/Mixed.ThreadsShare | Mixed.ThreadsShare
slow | folder/WholeSlow | WholeSlow.*
threads | folder/PoolThreads.One | PoolThreads.One
threads | folder/PoolThreads.Two | PoolThreads.Two
plain | folder/Forks.One | Forks.One
plain | folder/Forks.Two | Forks.Two'
[[ $listed == "$expected" ]] || fail "expected
$expected
got
$listed"

ran=$(ctest --test-dir "$folder" -V -R '^folder/Mixed$')
[[ $ran == *"ran --gtest_filter=Mixed.Quick"* ]] || fail "an entry does not run its tests: $ran"

# A program that fails must not be taken for one without tests.
printf '#!/bin/sh\necho broken; exit 3\n' >"$folder/program"
if output=$(ctest --test-dir "$folder" 2>&1); then fail "a broken program counts as passed: $output"; fi

rm "$folder/program"
if output=$(ctest --test-dir "$folder" 2>&1); then fail "a missing program counts as passed: $output"; fi
[[ $output == *folder_NOT_BUILT* ]] || fail "a missing program is not named: $output"
