// Measures attention forward, backward and over a cache, as rates and as fractions of a large matmul's rate
// on the same threads. Only the causal half of the FLOPs counts. Correctness is first checked against the
// reference. If MTL_PEER_PYTHON names a Python with torch, the times of its scaled_dot_product_attention are
// also printed.
//   npm run dev -- attention [threads]
import { fileURLToPath } from 'node:url';
import {
  attentionBackward,
  attentionCachedForward,
  attentionForward,
  attentionRowSums,
  hostInformation,
  matmul,
  setNumThreads,
  splitProjection,
  Tensor,
  tidy,
} from '@mtl/kernels';
import { Timer } from './timer.mjs';

const seconds = 0.5;
if (process.argv[2] !== undefined) setNumThreads(Number(process.argv[2]));
const python = process.env.MTL_PEER_PYTHON;
const peerProgram = fileURLToPath(new URL('time_attention_of_pytorch.py', import.meta.url));
const pytorch =
  python === undefined ? undefined : new Timer(python, [peerProgram, String(hostInformation().numThreads)]);
console.log(
  `kernels of ${hostInformation().instructionSet}${pytorch ? `; ${await pytorch.readLine()}` : ''}`,
);

/** Returns PyTorch's times of both passes, and their ratio to our times. */
async function ofPyTorch({ sizes, causal, probability = 0 }, dtype, ours) {
  if (pytorch === undefined) return '';
  const theirs = await pytorch.ask([...sizes, causal ? 1 : 0, probability, dtype].join(' '));
  const ratios = theirs.map((milliseconds, pass) => (milliseconds / ours[pass]).toFixed(2));
  return `; PyTorch ${theirs.map((value) => value.toFixed(2)).join(' and ')} ms, ${ratios.join(' and ')} times as long`;
}

function random(shape, dtype, device = 'cpu') {
  let state = 1;
  const size = shape.reduce((product, dim) => product * dim, 1);
  const values = Array.from({ length: size }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state / 2 ** 32 - 0.5) * 3.46; // variance 1
  });
  return Tensor.from(values, { shape, dtype, device });
}

/** Returns the milliseconds of the fastest run. */
function fastest(run) {
  run();
  let best = Number.POSITIVE_INFINITY;
  for (const end = performance.now() + seconds * 1000; performance.now() < end; ) {
    const start = performance.now();
    run();
    best = Math.min(best, performance.now() - start);
  }
  return best;
}

function problem([sequence, batch, heads, size], { dtype, causal, probability = 0, device = 'cpu' }) {
  const samples = Tensor.from(
    BigInt64Array.from({ length: batch }, (_, index) => BigInt(index)),
    {
      shape: [batch],
      dtype: 'int64',
      device,
    },
  );
  const qkvGradient = Tensor.empty({ shape: [sequence, batch, heads, 3, size], dtype, device });
  const gradients = splitProjection(qkvGradient);
  return {
    output: Tensor.empty({ shape: [sequence, batch, heads, size], dtype, device }),
    logSumExp: Tensor.empty({ shape: [batch, heads, sequence], dtype: 'float32', device }),
    rowSums: Tensor.empty({ shape: [batch, heads, sequence], dtype: 'float32', device }),
    ...splitProjection(random([sequence, batch, heads, 3, size], dtype, device)),
    outputGradient: random([sequence, batch, heads, size], dtype, device),
    qkvGradient,
    queryGradient: gradients.query,
    keyGradient: gradients.key,
    valueGradient: gradients.value,
    visibility: { causal },
    dropout: { probability, keyLow: 1, keyHigh: 2, samples },
  };
}

/** Runs the complete backward pass, starting from the output's gradient. */
function differentiate(call) {
  attentionRowSums(call);
  attentionBackward(call);
}

function check(dtype) {
  const results = ['cpu', 'reference'].map((device) => {
    const call = problem([150, 1, 2, 64], { dtype, causal: true, probability: 0.1, device });
    attentionForward(call);
    differentiate(call);
    return [...call.output.toArray(), ...call.qkvGradient.toArray()];
  });
  const difference = Math.max(...results[0].map((value, index) => Math.abs(value - results[1][index])));
  // float32: sums of 150 terms of size 1; bfloat16: probabilities and results are rounded to 8 bits
  const allowed = dtype === 'float32' ? 2e-5 : 6e-2;
  if (!(difference <= allowed)) throw new Error(`${dtype}: off by ${difference}, allowed ${allowed}`);
}

function matmulRate(dtype) {
  const [rows, inner, columns] = [4096, 1024, 1024];
  const [left, right] = [random([rows, inner], dtype), random([inner, columns], dtype)];
  const output = Tensor.empty({ shape: [rows, columns], dtype });
  return (2 * rows * inner * columns) / fastest(() => matmul({ output, left, right })) / 1e6;
}

const shapes = [
  { sizes: [256, 16, 6, 64], causal: true },
  { sizes: [256, 16, 6, 64], causal: true, probability: 0.1 },
  { sizes: [1024, 2, 12, 64], causal: true },
  { sizes: [128, 8, 12, 64], causal: false },
  { sizes: [512, 4, 8, 128], causal: true },
];

for (const dtype of ['float32', 'bfloat16']) {
  tidy(() => check(dtype));
  const peer = tidy(() => matmulRate(dtype));
  console.log(`${dtype}, ${hostInformation().numThreads} threads: a large matmul ${peer.toFixed(0)} GFLOP/s`);
  for (const shape of shapes) {
    const { sizes, causal, probability } = shape;
    const [sequence, batch, heads, size] = sizes;
    const flops = 4 * batch * heads * sequence * sequence * size * (causal ? 0.5 : 1);
    const [forward, backward] = tidy(() => {
      const call = problem(sizes, { dtype, causal, probability });
      return [fastest(() => attentionForward(call)), fastest(() => differentiate(call))];
    });
    const report = (name, milliseconds, work) => {
      const rate = work / milliseconds / 1e6;
      return `${name} ${milliseconds.toFixed(2)} ms ${rate.toFixed(0)} GFLOP/s (${((100 * rate) / peer).toFixed(0)} %)`;
    };
    const name = `[${sizes}]${causal ? ' causal' : ''}${probability ? ` dropout ${probability}` : ''}`;
    const passes = `${report('forward', forward, flops)}, ${report('backward', backward, 2 * flops)}`;
    console.log(`  ${name}: ${passes}${await ofPyTorch(shape, dtype, [forward, backward])}`);
  }
  tidy(() => {
    const cache = [8, 12, 1024, 64];
    const [keyCache, valueCache] = [random(cache, dtype), random(cache, dtype)];
    const output = Tensor.empty({ shape: [1, 8, 12, 64], dtype });
    const qkv = random([1, 8, 12, 3, 64], dtype);
    const call = { keyCache, valueCache, output, ...splitProjection(qkv), position: 1023 };
    const step = fastest(() => attentionCachedForward(call));
    const rate = (2 * keyCache.bytes) / step / 1e6;
    console.log(`  one position over a cache of [${cache}]: ${step.toFixed(2)} ms, ${rate.toFixed(1)} GB/s`);
  });
}
pytorch?.end();
