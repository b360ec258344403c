#!/bin/sh
# Runs the tests and benchmarks of this bundle on the machine's GPU: no network, no Node, nothing installed.
#   ./run-on-gpu.sh tests|sanitizer|kernels|bench|all [--out DIRECTORY] [--minutes NUMBER] [--only TEXT]
#     [--peer peer.py] [--python PROGRAM] [-- --presets gpt2-1.3b ...]
# Results (results-STAGE.json, tables, logs) go to --out, the variable OUT, or ./results. --emulation needs no GPU.
# --minutes ends the run in time. PyTorch is the one of --python or MTL_PEER_PYTHON, python3 unless set.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
node=$here/bin/node
addon=$here/packages/kernels/build/Release/mtl_kernels.node

# what PyTorch gets back: these libraries are for us
export MTL_HOST_LIBRARY_PATH="${LD_LIBRARY_PATH-}"
export LD_LIBRARY_PATH="$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
starts() { "$node" -e 'process.dlopen({ exports: {} }, process.argv[1])' "$addon"; }
if ! starts 2> /dev/null; then
  # a machine whose libstdc++ is older than ours
  export LD_LIBRARY_PATH="$here/lib/compat:$LD_LIBRARY_PATH"
  if ! starts; then
    echo "error[MTL_BUNDLE]: the addon cannot be loaded here; bundle.json states which glibc it needs, ldd --version which is installed" >&2
    echo "  remedy: a newer system, or build on this one: npm run build:native (needs Node)" >&2
    exit 2
  fi
fi
# the checkout that a bundle without sources was unpacked in
if [ -f "$here/sources.json" ]; then "$node" "$here/take-sources.mjs" "${MTL_CHECKOUT:-$here/..}" || exit 2; fi
if [ -f "$here/peer/gpt_torch.py" ]; then export MTL_PEER="${MTL_PEER:-$here/peer/gpt_torch.py}"; fi
while IFS='"' read -r _ key _ value _; do
  if [ "$key" = commit ]; then MTL_BUNDLE_COMMIT=$value; fi
done < "$here/bundle.json"
export MTL_BUNDLE_COMMIT
exec "$node" "$here/tooling/cuda/run-on-gpu.mjs" "$@"
