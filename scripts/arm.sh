#!/usr/bin/env bash
# Runs the whole program as AArch64 in an emulator: golden traces, and translations whose bytes must be this machine's.
# Usage: scripts/arm.sh [FOLDER]    (Debian 12 with g++-aarch64-linux-gnu and qemu-user; 1 GB, about ten minutes)
# FOLDER keeps Debian's Python and PyPI's wheels for AArch64, which are fetched once.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-${XDG_CACHE_HOME:-$HOME/.cache}/specmt-arm}")

if [[ ! -e $folder/site ]]; then
    mkdir -p "$folder"/apt/{state/lists,archives}/partial
    apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State=$folder/apt/state"
        -o Dir::State::status=/dev/null -o "Dir::Cache=$folder/apt" -o Debug::NoLocking=1)
    "${apt[@]}" update
    "${apt[@]}" install --yes --download-only --no-install-recommends \
        python3.11-minimal libpython3.11-stdlib libstdc++6 libgomp1
    for package in "$folder"/apt/archives/*.deb; do
        dpkg-deb -x "$package" "$folder/root"
    done
    # Of what is installed here, what translating and the traces import; there is no fairseq2 for AArch64.
    names='click|filelock|fsspec|iniconfig|Jinja2|markdown-it-py|MarkupSafe|mdurl|mpmath|networkx|numpy|packaging'
    names+='|platformdirs|pluggy|pyahocorasick|Pygments|pytest|rich|safetensors|sentencepiece|sympy|torch|tqdm'
    .venv/bin/python -m pip freeze | grep -E "^($names|typing_extensions)==" >"$folder/wheels.txt"
    .venv/bin/python -m pip install -q --target "$folder/site.part" --python-version 3.11 --no-deps \
        --only-binary=:all: --platform=manylinux_2_{17,24,27,28,31,34}_aarch64 -r "$folder/wheels.txt"
    mv "$folder/site.part" "$folder/site" # last: it is whole
fi

tree=$(mktemp -d)
trap 'rm -r "$tree"' EXIT
git ls-files specmt tests data | grep -v '^specmt/assets/page' | tar -c -T - | tar -x -C "$tree"
aarch64-linux-gnu-g++ -O2 -std=c++20 -pthread -fvisibility=hidden -fwrapv -ffp-contract=off -fPIC -shared \
    -march=armv8-a "$(.venv/bin/python -m specmt.engine.kernels.header)" \
    specmt/engine/kernels/csrc/{support,neon,neon_bf16}.cpp -o "$tree/specmt/engine/kernels/_kernels.cpython-311-aarch64-linux-gnu.so"
head -n 24 data/sample.de >"$tree/lines.de"
on_arm() {
    (cd "$tree" && qemu-aarch64 -L "$folder/root" -E "PYTHONPATH=$tree:$folder/site" \
        -E "LD_LIBRARY_PATH=$folder/root/usr/lib/aarch64-linux-gnu" "$folder/root/usr/bin/python3.11" "$@")
}

on_arm - <<'PYTHON'
import json
from tests.golden import test_traces

golden = json.loads(test_traces.GOLDEN.read_text(encoding="utf-8"))
test_traces.test_traces_are_the_stored_ones(golden)
test_traces.test_the_kernels_say_the_same(golden, None)
print(f"golden traces: {len(golden)} of {len(golden)} as stored, by PyTorch and by the kernels")
PYTHON

for variant in neon neon-bf16; do
    for dtype in float32 int8; do
        options=("$tree/lines.de" --model specmt/assets/de-en --dtype "$dtype" --drafter masked --scores --format tsv -q)
        .venv/bin/specmt translate "${options[@]}" -o "$tree/here"
        SPECMT_KERNELS=$variant on_arm -m specmt translate "${options[@]}" -o "$tree/arm"
        cmp "$tree/here" "$tree/arm"
        echo "$variant, $dtype: $(wc -l <"$tree/arm") lines with scores, the same bytes as here"
    done
done
