#!/usr/bin/env bash
# check_namespace.sh ROOT ABI: all code of the libraries lies in the inline namespace of the ABI version. Hooks open
# rapt::mechanisms and rapt::normalizers, which lie there already.
set -euo pipefail
cd "$1"

abi=$2
folders=(include src/{mechanisms,normalizers,attend,backends,c,tensor,layers,models,training,tasks} cmake/templates)
count=$({ grep -rlE "namespace rapt::inline v$abi\\b" "${folders[@]}" || true; } | wc -l)
if bare=$(grep -rnE '(^|@)namespace rapt\b' "${folders[@]}" | grep -vE "namespace rapt::(inline v$abi|mechanisms|normalizers)\\b"); then
  echo "Not in namespace rapt::inline v$abi:"
  echo "$bare"
  exit 1
fi
((count > 0)) || { echo "no file was found"; exit 1; }
echo "$count files lie in namespace rapt::inline v$abi"
