#!/usr/bin/env bash
# Tests scripts/prose: on the project's own pages, and on lines that are just too wide. Arguments: the script and a folder.
set -euo pipefail

script=$1 work=$2
rm -rf "$work"
mkdir -p "$work"

fail() {
  echo "prose_test: $1" >&2
  exit 1
}

"$script" || fail "expected prose of at most 100 columns on all pages, got the lines above"

hundred=$(printf 'é%.0s' {1..100})
refused() {
  printf '%s\n' "$2" > "$work/page.md"
  if "$script" "$work/page.md" > "$work/out"; then fail "$1: expected a refusal, got none"; fi
  grep -q "page.md:$3: expected at most 100 columns, got 101" "$work/out" || fail "$1: expected the line and its width, got $(cat "$work/out")"
}
accepted() {
  printf '%s\n' "$2" > "$work/page.md"
  "$script" "$work/page.md" > "$work/out" || fail "$1: expected no complaint, got $(cat "$work/out")"
}
refused "a line" "${hundred}x" 1
refused "an item of a list" $'text\n\n'"- ${hundred:2}x" 3
refused "a line after code" $'```\n'"$hundred$hundred"$'\n```\n'"${hundred}x" 4
accepted "a full line" "$hundred"
accepted "a table" "| $hundred |"
accepted "a code block" "    $hundred"
accepted "a fenced block" $'```sh\n'"$hundred$hundred"$'\n```'
accepted "a link" "[${hundred:20}](https://example.org/${hundred})"
