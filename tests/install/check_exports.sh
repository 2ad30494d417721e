#!/usr/bin/env bash
# check_exports.sh NM API_PAGE ABI LIBRARY...: the shared libraries export what the page lists under "Names that stay",
# and nothing else; C++ names are in the namespace of that ABI version. The table's second column lists the functions
# and classes; a class stands for its members.
set -euo pipefail

nm=$1 page=$2 abi=$3
shift 3

# What librapt_train uses of librapt_attend beyond the headers, and librapt_subwords of librapt_train; see docs/design.md.
internal='rapt::parallel_for rapt::tasks::use_subword_library'

# Without arguments and the ABI's namespace; names outside that get a mark that no list has.
exported=$("$nm" -D -C --defined-only "$@" | awk -v abi="rapt::v${abi}::" 'NF >= 3 && $2 ~ /^[A-Za-z]$/ {
    name = $0
    sub(/^[^ ]+ [A-Za-z] /, "", name)
    sub(/^(typeinfo|typeinfo name|vtable) for /, "", name)
    sub(/\(.*/, "", name)
    sub(/\[abi:cxx11\]/, "", name)
    if (index(name, abi) == 1) name = "rapt::" substr(name, length(abi) + 1)
    else if (name !~ /^rapt_/) name = name " (not in " abi ")"
    print name
  }' | sort -u)

awk -v exported="$exported" -v internal="$internal" '
  function owner(name) { sub(/::[^:]*$/, "", name); return name }
  /^## / { inside = $0 == "## Names that stay" }
  inside && /^\| `rapt\// {
    split($0, columns, "|")
    while (match(columns[3], /`[^`]+`/)) {
      name = substr(columns[3], RSTART + 1, RLENGTH - 2)
      columns[3] = substr(columns[3], RSTART + RLENGTH)
      listed[name ~ /^rapt_/ ? name : "rapt::" name] = 1
      ++count
    }
  }
  END {
    if (count == 0) { print "the page lists no names"; exit 1 }
    split(internal, list, " ")
    for (n in list) listed[list[n]] = 1
    total = split(exported, names, "\n")
    for (n in names) {
      name = names[n]
      place = name in listed ? name : owner(name) in listed ? owner(name) : owner(name) "::*"
      if (place in listed) found[place] = 1
      else { print "exported, but not listed: " name; bad = 1 }
    }
    for (name in listed) if (!(name in found)) { print "listed, but not exported: " name; bad = 1 }
    print total " names are exported"
    exit bad
  }' "$page"
