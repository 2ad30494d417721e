#!/usr/bin/env bash
# check.sh RAPT FOLDER: the tool with the mechanism kerple: listed, run forward and backward, measured, and documented.
set -euo pipefail

rapt=$1 folder=$2
mkdir -p "$folder"
cd "$folder"

fail() {
  echo "new_mechanism: $*" >&2
  exit 1
}

# npy NAME SHAPE BYTES: an f4 file, its numbers as bytes.
npy() {
  local header="{'descr': '<f4', 'fortran_order': False, 'shape': ($2), }"
  printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "$header" >"$1"
  printf '%b' "$3" >>"$1"
}

# Without the 128 bytes before them.
numbers() { od -An -v -tf4 -w4 -j128 "$1" | tr -d ' '; }

near() {
  awk -v got="$2" -v want="$3" 'BEGIN { d = got - want; exit !(d < 1e-5 && d > -1e-5) }' || fail "$1: got $2, expected $3"
}

[[ $("$rapt" list) == *$'\nkerple '* ]] || fail "rapt list does not show it"
[[ $("$rapt" list --json) == *'"q·k/√Dk − a·log(1 + b·|i−j|)"'* ]] || fail "rapt list --json does not show its formula"

# Two queries and two keys, all 1: with a = b = 1 the far key has half the weight of the near one.
one='\x00\x00\x80\x3f' zero='\x00\x00\x00\x00'
npy q.npy '2, 1' "$one$one"
npy v.npy '2, 1' "$one$zero"
npy g.npy '2, 1' "$one$zero"
"$rapt" attend --q q.npy --k q.npy --v v.npy --score kerple --param a=1 --param b=1 --grad g.npy --out out
mapfile -t out < <(numbers out/out.npy)
near "out of query 0" "${out[0]}" 0.6666667
near "out of query 1" "${out[1]}" 0.3333333
# out₀ = 1/(1 + 2^−a) at b = 1: its slope in a is 2/9·log 2, in b 2/9·½.
near "gradient of a" "$(numbers out/d_a.npy)" 0.1540327
near "gradient of b" "$(numbers out/d_b.npy)" 0.1111111

status=0
error=$("$rapt" attend --q q.npy --k q.npy --v v.npy --score kerple --param a=1 --out out 2>&1) || status=$?
[[ $status == 2 && $error == *"--param b: expected"* ]] || fail "a missing parameter gave status $status: $error"

# Results are checked before they are timed.
bench=$("$rapt" bench kerple --shape 1,1,32,8 --quick --repeat 1 --json) || fail "rapt bench failed"
for direction in forward backward; do
  [[ $bench == *"\"direction\": \"$direction\""* ]] || fail "rapt bench has no $direction row"
done
