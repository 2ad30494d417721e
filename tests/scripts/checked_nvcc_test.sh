#!/usr/bin/env bash
# checked_nvcc_test.sh CHECKED_NVCC FOLDER: what the launcher makes of a compiler's messages, with a fake compiler.
set -euo pipefail

checked=$1 folder=$2
rm -rf "$folder"
mkdir -p "$folder"

fail() {
  echo "checked_nvcc: $*" >&2
  exit 1
}

cat >"$folder/compiler" <<'END'
#!/usr/bin/env bash
echo "$SAYS" >&2
echo object >"${@: -1}"
exit "${STATUS:-0}"
END
chmod +x "$folder/compiler"

try() { SAYS=$1 STATUS=${2:-0} "$checked" "$folder/compiler" -c kernel.cu -o "$folder/kernel.o" 2>"$folder/said"; }

try "Registers are spilled to local memory in function 'f', 8 bytes spill stores, 32 bytes spill loads" || fail "refuses two registers"
try "ptxas info : Used 168 registers" || fail "refuses what is well"
[[ -f $folder/kernel.o && $(<"$folder/said") == "ptxas info : Used 168 registers" ]] || fail "keeps words or objects back"
if try "nvcc error" 3; then fail "takes an error for well"; fi
try "nvcc error" 3 || [[ $? == 3 && $(<"$folder/said") == "nvcc error" ]] || fail "changes an error: $(<"$folder/said")"
for words in \
  "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to a call in the function 'f'" \
  "ptxas warning : Registers are spilled to local memory in function 'f', 20 bytes spill stores, 8 bytes spill loads"; do
  if try "$words"; then fail "takes '$words'"; fi
  [[ ! -e $folder/kernel.o ]] || fail "leaves the object of '$words'"
  [[ $(<"$folder/said") == "$words"*"expected no products"*"got 1 of"* ]] || fail "says $(<"$folder/said")"
done
