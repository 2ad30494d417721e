#!/usr/bin/env bash
# check_symbols.sh NM TARGET OBJECT...: fails when an object of a SIMD target defines a symbol that the linker may share
# with other objects (weak or unique) and that does not carry the target in its name.
set -euo pipefail

nm=$1 target=$2
shift 2

# Constants, which hold no instructions and are the same for every target: exception-handling references, type
# descriptions, and what a mechanism declares about itself.
allowed='^(DW\.ref\.|typeinfo for |typeinfo name for |rapt::mechanisms::[A-Za-z0-9_]+::(parameters|settings|formula)$)'

offenders=$("$nm" -C --defined-only "$@" | awk -v target="rapt::${target}::" -v allowed="$allowed" '
  $2 ~ /^[WVu]$/ {
    name = $0
    sub(/^[^ ]+ [WVu] /, "", name)
    gsub(/rapt::v[0-9]+::/, "rapt::", name)
    if (name !~ allowed && index(name, target) == 0 && name !~ /hwy::N_/) print $2 " " name
  }' | sort | uniq -c)

if [[ -n $offenders ]]; then
  echo "Symbols of $target that another object's copy may replace, or that may replace another's:"
  echo "$offenders"
  exit 1
fi
echo "$# objects of $target define no shared symbol outside rapt::$target"
