#!/usr/bin/env node
/**
 * Times every kernel of device cuda at the sizes of a large model, after checking its values. Attention is
 * compared with PyTorch's scaled_dot_product_attention, matmuls with cuBLAS's own rate, and all other kernels
 * with the GPU's copy rate. Writes bench-kernels.md and .json. The exit status is 1 if a value is wrong or a
 * goal is missed, and 2 without PyTorch.
 *   node tooling/measure/kernels/cuda/bench-kernels.mjs [--out DIRECTORY] [--only TEXT] [--seconds NUMBER] [--dry-run]
 * With --seconds, our side ends after two thirds of this time, and PyTorch gets the rest. Only kernels that
 * were timed are compared. --dry-run uses small sizes, and PyTorch on the processor. Times under emulation
 * have no meaning.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { compareKernels, formatKernels } from './compare-kernels.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const directory = join(here, '../../../../packages/kernels');
const { values } = parseArgs({
  options: {
    out: { type: 'string', default: join(directory, 'build/bench-cuda') },
    only: { type: 'string' },
    seconds: { type: 'string', default: 'Infinity' },
    'dry-run': { type: 'boolean', default: false },
  },
});
const started = performance.now();
const seconds = Number(values.seconds);
if (!(seconds > 0)) {
  console.error(`error[MTL_FLAG_VALUE]: --seconds ${values.seconds} is no number above 0`);
  process.exit(2);
}
/**
 * Returns options that end a program after `limit` seconds. SIGKILL is needed, because a test runner ignores
 * all other signals while a GPU computes.
 */
const endedAfter = (limit) =>
  Number.isFinite(limit) ? { timeout: Math.max(1, Math.round(1000 * limit)), killSignal: 'SIGKILL' } : {};
const out = resolve(values.out);
mkdirSync(out, { recursive: true });
const isDryRun = values['dry-run'];
const file = join(out, 'kernels-ours.json');
rmSync(file, { force: true });

// attention and random values have separate checks and sizes, which would take minutes under emulation
const only = values.only ?? (isDryRun ? '^(?!.*(attention|philox))' : undefined);
const vitest = [
  join(directory, 'node_modules/vitest/vitest.mjs'),
  'run',
  '--config',
  'bench/vitest.config.mjs',
];
const ours = spawnSync(
  process.execPath,
  [...vitest, '--disable-console-intercept', ...(only === undefined ? [] : ['-t', only])],
  {
    cwd: directory,
    stdio: 'inherit',
    ...endedAfter((2 / 3) * seconds),
    env: {
      ...process.env,
      MTL_BENCH_DEVICE: 'cuda',
      MTL_BENCH_JSON: file,
      MTL_BENCH_DRY_RUN: isDryRun ? '1' : '0',
    },
  },
);
if (!existsSync(file)) {
  console.error('error[MTL_BENCH_KERNELS]: nothing was timed\n  remedy: see the output above for the reason');
  process.exit(1);
}
const rows = JSON.parse(readFileSync(file, 'utf8'));

/** Returns PyTorch's rates for the timed attention; undefined if no Python with torch is available. */
function measurePeer() {
  const shapes = rows
    .filter(({ operation, name }) => operation === 'attention_forward' && !name.includes('dropout'))
    .map(({ qkv: [s, b, a, , d], name }) => [s, b, a, d, name.includes(' causal')]);
  const what = isDryRun
    ? { attention: [[64, 1, 2, 16, true]], products: [64], copy_bytes: [1 << 16] }
    : {
        attention: [...new Set(shapes.map(String))].map((text) => shapes.find((one) => String(one) === text)),
        products: [8192],
        copy_bytes: [2 ** 31],
      };
  const args = [join(here, 'peer_kernels.py'), JSON.stringify(what), '--device', isDryRun ? 'cpu' : 'cuda'];
  // a bundle puts its own libraries before the machine's libraries, which is right only for our program
  const { MTL_HOST_LIBRARY_PATH: libraries = process.env.LD_LIBRARY_PATH ?? '' } = process.env;
  const env = { ...process.env, LD_LIBRARY_PATH: libraries };
  const left = seconds - (performance.now() - started) / 1000;
  const options = { encoding: 'utf8', env, ...endedAfter(left) };
  const result = spawnSync(process.env.MTL_PEER_PYTHON ?? 'python3', args, options);
  if (result.status === 0) return JSON.parse(result.stdout.trim().split('\n').at(-1));
  console.log(
    `PyTorch could not be timed:\n${(result.error?.message ?? result.stderr ?? '').split('\n').slice(-5).join('\n')}`,
  );
  return undefined;
}

/** Returns the GPU's name in the driver, or the emulation. */
function describeGpu() {
  const { status, stdout } = spawnSync(process.execPath, [join(here, 'describe-gpu.mjs')], {
    encoding: 'utf8',
    timeout: 60_000,
    killSignal: 'SIGKILL',
  });
  if (status !== 0) return { name: 'a GPU that no longer answers' };
  const { devices, deviceIndex, cublasLtVersion } = JSON.parse(stdout);
  return { ...devices[deviceIndex], cublasLtVersion };
}

const peer = measurePeer();
const gpu = describeGpu();
const compared = compareKernels({ rows, peer });
const table = formatKernels(compared);
const gpuText = `${gpu.name}, cuBLASLt ${gpu.cublasLtVersion ?? 'unknown'}`;
const peerText = peer
  ? `PyTorch ${peer.torch} on ${peer.device}: ${peer.products.map(({ n, tflops }) => `${n}^3 ${tflops.toFixed(1)} TFLOP/s`).join(', ')}, copy ${peer.copies.map((one) => `${one.gb_per_s.toFixed(0)} GB/s`).join(', ')}`
  : 'without PyTorch';
writeFileSync(
  join(out, 'bench-kernels.json'),
  `${JSON.stringify({ isDryRun, card: gpu, peer: peer ?? null, rows: compared }, null, 1)}\n`,
);
writeFileSync(
  join(out, 'bench-kernels.md'),
  `${gpuText}; ${peerText}${isDryRun ? '; a dry run: the times mean nothing' : ''}\n\n${table}\n`,
);
console.log(`\n${gpuText}; ${peerText}\n\n${table}`);
if (ours.status !== 0) {
  console.error('error[MTL_BENCH_VALUES]: a kernel gave wrong values, or was not timed (above)');
  process.exit(1);
}
if (peer === undefined) process.exit(2);
process.exit(compared.every(({ reached }) => reached !== false) || isDryRun ? 0 : 1);
