#!/usr/bin/env bash
# run.sh WHEELS WORK_DIR: the wheel in the folder WHEELS is for the stable ABI, small, needs no library but the system's, and runs in
# virtual environments that have nothing but NumPy: one for each Python of 3.12 or newer that is found.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
rm -rf "$2"
mkdir -p "$2"
wheels=$(cd "$1" && pwd) work=$(cd "$2" && pwd)

skip() { echo "skipped: wheel: $1"; exit 0; }
fail() { echo "FAILED: wheel: $1" >&2; exit 1; }

first=$("$root/scripts/wheel" --python)
"$first" -c 'import sys; raise SystemExit(sys.version_info[:2] < (3, 12))' || skip "no Python of 3.12 or newer was found, which the stable ABI needs"
found=("$wheels"/*.whl)
[[ -e ${found[0]} && ${#found[@]} == 1 ]] || fail "expected one wheel in $wheels, got ${found[*]}"
wheel=${found[0]}

echo "== $(basename "$wheel"): its name, size and libraries"
[[ $(basename "$wheel") =~ ^rapt_attention-[0-9.]+-cp312-abi3-.*(manylinux|musllinux).*\.whl$ ]] || fail "expected a name with cp312-abi3-manylinux, got $(basename "$wheel")"
bytes=$(stat -c %s "$wheel")
((bytes <= 8 * 1024 * 1024)) || fail "expected at most 8 MiB, got $bytes bytes"
"$first" -m zipfile -e "$wheel" "$work/files"
[[ -f $work/files/rapt/_core.abi3.so ]] || fail "expected rapt/_core.abi3.so, got $(cd "$work/files" && echo rapt/_core*)"
for file in py.typed _core.pyi torch/flex.py explorer_page; do
  [[ -e $work/files/rapt/$file ]] || fail "expected rapt/$file in the wheel, got none"
done
others=$(find "$work/files" -name '*.so*' ! -name _core.abi3.so)
[[ -z $others ]] || fail "expected no library but _core.abi3.so, got $others"
needed=$(readelf -d "$work/files/rapt/_core.abi3.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
strange=$(grep -vE '^(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux[a-z0-9_-]*)\.so' <<<"$needed" || true)
[[ -z $strange ]] || fail "expected the system's libraries alone, got $strange"

cat >"$work/program.py" <<'END'
import importlib.util

import numpy as np

import rapt

assert importlib.util.find_spec("torch") is None
q, k, v = (np.random.default_rng(n).standard_normal((2, 4, 30, 16)) for n in range(3))
scores = q @ k.swapaxes(-1, -2) / 4 - 0.5 * np.abs(np.arange(30)[:, None] - np.arange(30))
weights = np.exp(scores - scores.max(-1, keepdims=True))
weights /= weights.sum(-1, keepdims=True)
options = dict(score="alibi", params={"m": [0.5] * 4})
np.testing.assert_allclose(rapt.attend(q, k, v, **options), weights @ v, atol=1e-12)
dv = rapt.gradients(q, k, v, np.ones_like(v), **options)[2]
np.testing.assert_allclose(dv, np.broadcast_to(weights.sum(-2)[..., None], dv.shape), atol=1e-12)
formula = rapt.formula(lambda raw, scale, i, j, m: raw * scale - m * abs(i - j))
np.testing.assert_allclose(rapt.attend(q, k, v, score=formula, params={"m": 0.5}), weights @ v, atol=1e-12)
print(rapt.__file__)
END
tried=""
for python in "$first" python3.1{2..9} $(compgen -G "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.1[2-9]*/bin/python3" || true); do
  version=$("$python" -c 'import sys, venv; print(*sys.version_info[:2], sep=".") if sys.version_info >= (3, 12) else 0' 2>"$work/log") || continue
  [[ $tried != *" $version "* ]] || continue
  tried+=" $version "
  echo "== Python $version"
  "$python" -m venv "$work/venv$version"
  own=$work/venv$version/bin/python
  "$own" -m pip install --quiet --disable-pip-version-check "numpy>=1.22" >"$work/log" 2>&1 ||
    { echo "skipped: wheel: NumPy cannot be installed for Python $version here"; continue; }
  "$own" -m pip install --quiet --disable-pip-version-check --no-index --no-deps "$wheel"
  "$own" -m pip check --disable-pip-version-check >"$work/log" || fail "pip check: $(cat "$work/log")"
  where=$(cd "$work" && "$own" -I program.py) || fail "the program does not run under Python $version"
  [[ $where == "$work/venv$version"/* || $where == "$(realpath "$work")/venv$version"/* ]] || fail "expected the installed package, got $where"
done
echo "the wheel of $((bytes / 1024)) KiB runs under Python$tried"
