// Measures the time of the residual sums in a Llama with SmolLM-135M's size, compared with its RMSNorms, the
// forward pass and the training step. This is the upper limit for the savings of a fused kernel. The
// operations are first compared with their formulas. In packages/runs:
//   npm run dev -- residual-and-norm [--threads 2] [--dtype float32] [--seq-length 1024] [--rounds 5]
import { parseArgs } from 'node:util';
import {
  biasDropoutResidualForward,
  hostInformation,
  rmsNormForward,
  setNumThreads,
  Tensor,
} from '@mtl/kernels';
import { LlamaSide, randomStep, smolLlama } from './llama-side.mjs';

const { values: flags } = parseArgs({
  options: {
    threads: { type: 'string', default: '2' },
    dtype: { type: 'string', default: 'float32' },
    'seq-length': { type: 'string', default: '1024' },
    rounds: { type: 'string', default: '5' },
  },
});
setNumThreads(Number(flags.threads));
const { dtype } = flags;
const [sequenceLength, rounds] = [Number(flags['seq-length']), Number(flags.rounds)];
const { hiddenSize, numLayers, layerNormEpsilon: epsilon } = smolLlama;
const [numSums, numNorms] = [2 * numLayers, 2 * numLayers + 1];
const shape = [sequenceLength, 1, hiddenSize];
const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

function random(of, seed) {
  let state = seed;
  const values = Array.from({ length: of.reduce((product, dim) => product * dim, 1) }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state / 2 ** 32 - 0.5) * 3.46; // variance 1
  });
  return Tensor.from(values, { shape: of, dtype });
}

/** Returns the tensors of one layer: a sublayer's output, the residual, their sum and the norm of the sum. */
function operands(seed) {
  return {
    input: random(shape, seed),
    residual: random(shape, seed + 1),
    sum: Tensor.empty({ shape, dtype }),
    normalized: Tensor.empty({ shape, dtype }),
    rstd: Tensor.empty({ shape: [sequenceLength], dtype: 'float32' }),
  };
}
const weight = random([hiddenSize], 7);
const add = ({ input, residual, sum }) => biasDropoutResidualForward({ output: sum, input, residual });
const norm = ({ sum, normalized, rstd }) =>
  rmsNormForward({ output: normalized, rstd, input: sum, weight, epsilon });

function check(one) {
  add(one);
  norm(one);
  const [input, residual, sum, normalized] = ['input', 'residual', 'sum', 'normalized'].map((name) =>
    one[name].toArray(),
  );
  const weights = weight.toArray();
  // bfloat16 rounds sums of up to 3.5 and normalized values of up to 3.5 to 8 bits, float32 to 24
  const bound = dtype === 'float32' ? 2 ** -20 : 2 ** -6;
  for (let row = 0; row < sequenceLength; row++) {
    const at = row * hiddenSize;
    const rowSum = sum.slice(at, at + hiddenSize);
    const rstd = 1 / Math.sqrt(rowSum.reduce((total, x) => total + x * x, 0) / hiddenSize + epsilon);
    rowSum.forEach((x, h) => {
      const differences = [
        x - (input[at + h] + residual[at + h]),
        normalized[at + h] - x * rstd * weights[h],
      ];
      if (!differences.every((difference) => Math.abs(difference) <= bound))
        throw new Error(
          `row ${row}, feature ${h}: the operations differ from their formulas by ${differences}`,
        );
    });
  }
}

/**
 * Returns the milliseconds that `count` consecutive calls take; the calls cycle through the operands in
 * `all`.
 */
function timed(operation, count, all) {
  const start = performance.now();
  for (let index = 0; index < count; index++) operation(all[index % all.length]);
  return performance.now() - start;
}

const side = new LlamaSide({ dtype, loraRank: 0 });
const { batch } = randomStep({ step: 0, batchSize: 1, sequenceLength });
const lossFactors = { lm_loss: 1 / sequenceLength };
const layers = Array.from({ length: 12 }, (_, index) => operands(10 + 2 * index));
check(layers[0]);
// the operands of one layer fit the cache; the operands of twelve layers (108 MiB in float32) do not
const cases = { 'in cache': layers.slice(0, 1), 'from memory': layers };
const times = Object.fromEntries(
  ['forward', 'step', ...Object.keys(cases).flatMap((name) => [`${name} sums`, `${name} norms`])].map(
    (name) => [name, []],
  ),
);
for (let round = -1; round < rounds; round++) {
  const start = performance.now();
  side.stage.forward({ microBatch: 0, batch, lossFactors });
  const forward = performance.now() - start;
  side.stage.backwardInput({ microBatch: 0, weights: true });
  side.stage.takeLosses(0)[0].dispose();
  side.optimizer.step({ learningRate: 1e-4 });
  const step = performance.now() - start;
  const found = { forward, step };
  for (const [name, all] of Object.entries(cases)) {
    found[`${name} sums`] = timed(add, numSums, all);
    found[`${name} norms`] = timed(norm, numNorms, all);
  }
  if (round >= 0) for (const [name, time] of Object.entries(found)) times[name].push(time);
}
const { numThreads, instructionSet } = hostInformation();
const [forward, step] = [median(times.forward), median(times.step)];
console.log(
  `${numLayers} layers of ${hiddenSize}, ${sequenceLength} tokens, ${dtype}, ${numThreads} threads, ` +
    `${instructionSet}; medians of ${rounds}: forward ${forward.toFixed(0)} ms, step ${step.toFixed(0)} ms`,
);
for (const name of Object.keys(cases)) {
  const [sums, norms] = [median(times[`${name} sums`]), median(times[`${name} norms`])];
  const share = (of) => `${((100 * sums) / of).toFixed(2)}%`;
  console.log(
    `  ${name}: ${numSums} sums ${sums.toFixed(2)} ms, ${numNorms} norms ${norms.toFixed(2)} ms; ` +
      `the sums are ${share(forward)} of forward and ${share(step)} of the step`,
  );
}
side.dispose();
