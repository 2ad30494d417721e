#!/usr/bin/env bash
# cmudict_test.sh SCRIPT WORK_DIR: the published split, from files as they are published; the package needs the network.
set -euo pipefail

script=$1 work=$2
rm -rf "$work"
mkdir -p "$work/files"

fail() {
  echo "cmudict: $1" >&2
  exit 1
}

printf "AARDVARK  AA1 R D V AA2 R K\nABBOTT\tAE B AH T\nABBOTT  AE1 B AH0 T\nABBY  AE B IY\n" >"$work/files/cmudict-0.7b.train"
printf "ABADI  AH B AE D IY\nABADI  AH B AA D IY\nABATING  AH B EY T IH NG\n" >"$work/files/cmudict-0.7b.test"
"$script" --published "$work/files" "$work/out" >"$work/said" || fail "expected the split to be written"
grep -q "test.tsv: 2 words, 3 pronunciations" "$work/said" || fail "expected 2 test words, got $(cat "$work/said")"
grep -q "left out: 1 that differ in stress alone, 0 with" "$work/said" || fail "expected 1 left out, got $(cat "$work/said")"
[[ $(cat "$work/out/test.tsv") == $'abadi\tAH B AE D IY\nabadi\tAH B AA D IY\nabating\tAH B EY T IH NG' ]] ||
  fail "expected the test file's own lines, got $(cat "$work/out/test.tsv")"
[[ $(sort -u "$work/out/train.tsv" "$work/out/valid.tsv") == $'aardvark\tAA R D V AA R K\nabbott\tAE B AH T\nabby\tAE B IY' ]] ||
  fail "expected the other words in train.tsv and valid.tsv, got $(cat "$work/out/train.tsv" "$work/out/valid.tsv")"

refused() {
  if "$script" --published "$work/files" "$work/none" >"$work/said" 2>&1; then fail "expected to refuse: $1"; else
    (($? == 2)) || fail "expected exit status 2 for: $1"
  fi
  grep -q "$1" "$work/said" || fail "expected '$1', got $(cat "$work/said")"
  [[ ! -e $work/none ]] || fail "expected nothing to be written"
}
printf "ABADI  AH B AE D IY\n" >>"$work/files/cmudict-0.7b.train"
refused "expected words in one of the two files, got abadi in both"
printf "ABADI\n" >"$work/files/cmudict-0.7b.train"
refused "cmudict-0.7b.train:1: expected a word and its phonemes, got 'ABADI'"
