#!/usr/bin/env bash
# bootstrap_test.sh BOOTSTRAP FOLDER: a fake machine on which everything but the browser is installed. apt-cache writes
# so much after the deciding line that a reader which stops breaks the pipe.
set -euo pipefail

bootstrap=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder/bin"

fail() {
  echo "bootstrap: $*" >&2
  exit 1
}

# stand_in NAME: a program of that name, from standard input.
stand_in() {
  { echo '#!/usr/bin/env bash'; cat; } >"$folder/bin/$1"
  chmod +x "$folder/bin/$1"
}
stand_in dpkg-query <<'END'
case ${*: -1} in chromium* | python3-selenium | ${ALSO_ABSENT:-none}) exit 1 ;; *) printf installed ;; esac
END
stand_in apt-cache <<'END'
[[ $HAS == yes ]] && echo "  Candidate: 119.0.6045.123" || echo "  Candidate: (none)"
for ((n = 0; n < 20000; ++n)); do echo "     500 a line of the version table"; done
END
stand_in apt-get <<'END'
[[ $1 == install ]] && printf '%s\n' "$@" >"$INSTALLED"
exit 0
END
stand_in sudo <<'END'
exec "$@"
END

export PATH="$folder/bin:$PATH" INSTALLED="$folder/installed"
output=$(HAS=yes "$bootstrap" --pages) || fail "it failed: $output"
[[ $output != *"has no package"* ]] || fail "packages that the system has were not found: $output"
for package in chromium chromium-driver python3-selenium; do
  grep -qx "$package" "$INSTALLED" || fail "$package was not installed: $output"
done

rm "$INSTALLED"
output=$(HAS=no "$bootstrap" --pages) || fail "a system without the browser is no failure: $output"
[[ $output == *"this system has no package chromium-driver; tests that need it will be skipped."* ]] || fail "it said: $output"
[[ ! -e $INSTALLED ]] || fail "packages that the system does not have were asked for"

# What the fuzzers need is required: there are no tests to skip.
rm -f "$INSTALLED"
output=$(ALSO_ABSENT=libclang-rt-dev HAS=yes "$bootstrap" --fuzz) || fail "it failed: $output"
grep -qx libclang-rt-dev "$INSTALLED" || fail "libclang-rt-dev was not installed: $output"
rm "$INSTALLED"
output=$(ALSO_ABSENT=libclang-rt-dev HAS=yes "$bootstrap") || fail "it failed: $output"
! grep -qsx libclang-rt-dev "$INSTALLED" || fail "libclang-rt-dev was installed without --fuzz"

# Where there is an MPI, MPICH say, another one would take its place.
rm -f "$INSTALLED"
for name in mpicxx mpirun; do stand_in "$name" </dev/null; done
output=$(ALSO_ABSENT=libopenmpi-dev HAS=yes "$bootstrap" --mpi) || fail "it failed: $output"
! grep -qsx libopenmpi-dev "$INSTALLED" || fail "Open MPI was installed beside the MPI that is there"

# A library that only a part of the tool needs: installed where the system has it, and no failure where it has not.
export ALSO_ABSENT=libsentencepiece-dev
output=$(HAS=yes "$bootstrap") || fail "it failed: $output"
grep -qx libsentencepiece-dev "$INSTALLED" || fail "libsentencepiece-dev was not installed: $output"
rm "$INSTALLED"
output=$(HAS=no "$bootstrap") || fail "a system without SentencePiece is no failure: $output"
[[ $output == *"this system has no package libsentencepiece-dev"* ]] || fail "it said: $output"
[[ ! -e $INSTALLED ]] || fail "packages that the system does not have were asked for"
