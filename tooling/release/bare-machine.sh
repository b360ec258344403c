#!/bin/sh
# testBareMachine runs this in the file system of a bare machine: bare-machine.sh MANAGER CUDA HOST
set -eu
manager=$1 cuda=$2 host=$3
export HOME=/root/home PATH=/opt/node/bin:/usr/bin:/bin npm_config_registry=http://127.0.0.1:4873
export YARN_CACHE_FOLDER=/root/home/yarn npm_config_fetch_retries=0 npm_config_audit=false npm_config_fund=false npm_config_update_notifier=false
cd /root/project
echo '{ "private": true }' > package.json
printf 'registry "http://127.0.0.1:4873"\n' > .yarnrc
started=$(date +%s.%N)
add() {
  case $manager in
    npm) node /opt/npm/bin/npm-cli.js install --ignore-scripts "$@" ;;
    pnpm) node /opt/pnpm/bin/pnpm.cjs add --ignore-scripts "$@" ;;
    yarn) node /opt/yarn/bin/yarn.js add --ignore-scripts "$@" ;;
  esac
}
add @mtl/cli
installed=$(date +%s.%N)
trains() {
  "$@" --train-iters 1 --eval-iters 0 --log-interval 1 | tee log
  grep -q 'iteration 1/1 | lm loss [0-9]' log
}
trains ./node_modules/.bin/mtl train gpt
trained=$(date +%s.%N)
bytes=$(du -s --block-size=1 node_modules | cut -f1)
trains ./node_modules/.bin/mtl run --nproc-per-node 2 gpt --
trains ./node_modules/.bin/mtl run --nproc-per-node 4 gpt -- --tensor-model-parallel-size 2
trains ./node_modules/.bin/mtl train bert
if [ "$manager" = npm ]; then
  # two hosts, over Gloo
  node_of_two() {
    MTL_JOB_SECRET='the secret of a test' MTL_SOCKET_INTERFACE=$host ./node_modules/.bin/mtl run --nnodes 2 --node-rank "$1" \
      --master-addr "$host" gpt -- --train-iters 1 --eval-iters 0 --log-interval 1 --tensor-model-parallel-size 2
  }
  node_of_two 1 > other 2>&1 &
  node_of_two 0 > log 2>&1 || { cat log other; exit 1; }
  wait $! || { cat log other; exit 1; }
  grep -q 'iteration 1/1 | lm loss [0-9]' log
  for other in /opt/node-*/bin/node; do trains "$other" node_modules/@mtl/cli/bin/mtl.mjs train gpt; done
fi
if [ "$cuda" = yes ]; then
  # the library is found and loads; what the machine lacks is the driver
  add @mtl/kernels-cuda-linux-x64
  ./node_modules/.bin/mtl train gpt --device cuda --train-iters 1 > log 2>&1 && exit 1
  grep -q 'error\[MTL_CUDA_DRIVER\]' log || { cat log; exit 1; }
  # NCCL's engine, too
  ./node_modules/.bin/mtl doctor > log 2>&1 || true
  grep -q 'NCCL.*libcuda.so.1 was not found' log || { cat log; exit 1; }
fi
seconds() { node -p "Number(($2 - $1).toFixed(1))"; }
size() { find -L "$1" -type f -printf '%s\n' 2> /dev/null | awk '{ sum += $1 } END { print sum + 0 }'; }
kernels=$(size "$(dirname "$(find -L node_modules -name mtl_kernels.node -print -quit)")")
echo "RESULT {\"install\": $(seconds "$started" "$installed"), \"training\": $(seconds "$installed" "$trained"), \"bytes\": $bytes, \"bytesOfKernels\": $kernels}"
