#!/usr/bin/env bash
# check_macros.sh INCLUDE_DIR COMPILER OPTION...: fails if a public header defines a macro whose name does not start
# with RAPT_. The compiler's -dD prints definitions with their files.
set -euo pipefail

include=$1
shift

# That for MPI needs MPI's.
mapfile -t headers < <(find "$include/rapt" -maxdepth 1 -name '*.h' -not -name mpi.h | sort)
[[ " $* " == *" -x c "* ]] && headers=("$include/rapt/c.h" "$include/rapt/api.h")
output=$(printf '#include "%s"\n' "${headers[@]}" | "$@" -E -dD -I "$include" -)
awk -v folder="$include/rapt/" '
  /^# [0-9]+ "/ { inside = index($3, "\"" folder) == 1 }
  inside && $1 == "#define" { seen[$2] = 1 }
  inside && $1 == "#undef" { delete seen[$2] }
  END {
    for (name in seen) {
      sub(/\(.*/, "", name)
      ++count
      if (name !~ /^RAPT_/) { print "a public header leaves the macro " name; bad = 1 }
    }
    if (count == 0) { print "no macro was seen, not even RAPT_API"; bad = 1 }
    exit bad
  }' <<<"$output"
