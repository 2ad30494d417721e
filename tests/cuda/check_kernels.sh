#!/usr/bin/env bash
# check_kernels.sh FOLDER COMMAND...: compiles each of FOLDER's *.cu with COMMAND, and fails if ptxas reports spilled
# registers or serialised products (C7504 … C7515), which no test of results would show.
set -euo pipefail

folder=$1
shift
for source in "$folder"/*.cu; do
  log=$("$@" -Xptxas -v -c "$source" -o "${source%.cu}.o" 2>&1) || { echo "$log"; exit 1; }
  spilled=$(grep -B 1 -E '[1-9][0-9]* bytes spill' <<<"$log" || true)
  serial=$(grep -E 'C75(04|08|09|10|11|12|14|15)' <<<"$log" || true)
  if [[ -n $spilled || -n $serial ]]; then
    echo "$source: expected no spills and no serialised products, got"
    echo "$spilled$serial"
    exit 1
  fi
  echo "${source##*/}: $(grep -c 'Compiling entry function' <<<"$log") kernels, no spills"
done
