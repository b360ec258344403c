// Measures the three matmuls of the experts' first layer, over all experts at once, as multiples of the time
// of a dense matmul with the same FLOPs. Also measures the operations that move rows to the experts and back,
// as multiples of the time of a copy of the same size. Rows are distributed over the experts evenly, or by a
// hash, so that the largest expert has a few times the mean. Before the measurement, the sums of all outputs
// are compared with the sums of the dense matmul.
//   npm run dev -- grouped-matmuls [--threads 2] [--dtypes float32,bfloat16] [--experts 32] [--rounds 15]
import { parseArgs } from 'node:util';
import {
  biasSwigluBackward,
  biasSwigluForward,
  cast,
  combineRows,
  expertActivationBackward,
  expertActivationForward,
  groupByExpert,
  groupedMatmul,
  groupedWeightGradient,
  hostInformation,
  matmul,
  permuteRows,
  routerBackward,
  routerForward,
  routerStatisticsBackward,
  routerStatisticsForward,
  setNumThreads,
  Tensor,
} from '@mtl/kernels';

const { values: flags } = parseArgs({
  options: {
    threads: { type: 'string' },
    dtypes: { type: 'string', default: 'float32,bfloat16' },
    experts: { type: 'string', default: '32' },
    rounds: { type: 'string', default: '15' },
  },
});
if (flags.threads !== undefined) setNumThreads(Number(flags.threads));
// the number of tokens, the number of experts per token, the hidden size, the feed-forward size, and the
// number of experts
const [tokens, topK, hidden, feedForward, experts] = [2048, 4, 512, 256, Number(flags.experts)];
const rows = tokens * topK;
const hash = (index) => Math.imul(index + 1, 0x9e3779b1) >>> 0;

function random(shape, dtype) {
  const size = shape.reduce((product, dim) => product * dim, 1);
  const values = Array.from({ length: size }, (_, index) => hash(index) / 2 ** 32 - 0.5);
  return Tensor.from(values, { shape, dtype });
}

/**
 * Returns the shortest time of each function. The functions take turns, because the speed of a shared machine
 * changes within seconds.
 */
function timed(bodies) {
  const best = Object.fromEntries(Object.keys(bodies).map((name) => [name, Number.POSITIVE_INFINITY]));
  for (let round = 0; round <= Number(flags.rounds); round++) {
    for (const [name, body] of Object.entries(bodies)) {
      const start = process.hrtime.bigint();
      body();
      const seconds = Number(process.hrtime.bigint() - start) / 1e9;
      if (round > 0) best[name] = Math.min(best[name], seconds);
    }
  }
  return best;
}

const routings = {
  even: (slot) => slot % experts,
  // the square of a uniform value from 0 to 1, so that the first experts are the most frequent
  skewed: (slot) => Math.floor((hash(slot) / 2 ** 32) ** 2 * experts),
};

function makeGroups(routing) {
  const chosen = Tensor.from(
    Int32Array.from({ length: rows }, (_, slot) => routings[routing](slot)),
    { shape: [tokens, topK], dtype: 'int32' },
  );
  return groupByExpert({ experts: chosen, numExperts: experts });
}

function expectSame(name, actual, expected) {
  const [left, right] = [actual, expected].map((tensor) =>
    tensor.toArray().reduce((sum, value) => sum + value * value, 0),
  );
  if (!(Math.abs(left - right) <= 1e-2 * right)) throw new Error(`${name}: ${left}, expected ${right}`);
}

const print = (name, seconds, peer, unit, amount) =>
  console.log(
    `${name.padEnd(56)} ${(seconds * 1e3).toFixed(2).padStart(8)} ms ${(amount / seconds / 1e9).toFixed(1).padStart(7)} ${unit} ${(seconds / peer).toFixed(2).padStart(6)}`,
  );

function matmuls(dtype, routing) {
  const outputs = 2 * feedForward;
  const { offsets } = makeGroups(routing);
  const input = random([rows, hidden], dtype);
  const outputGradient = random([rows, outputs], dtype);
  const weight = random([outputs, hidden], dtype);
  const weights = Tensor.empty({ shape: [experts, outputs, hidden], dtype });
  const bits = weight.read();
  const repeated = new bits.constructor(bits.length * experts);
  for (let expert = 0; expert < experts; expert++) repeated.set(bits, expert * bits.length);
  weights.write(repeated);
  const make = (shape, its = dtype) => Tensor.empty({ shape, dtype: its });
  const [output, inputGradient] = [make([rows, outputs]), make([rows, hidden])];
  const [denseOutput, denseInputGradient] = [make([rows, outputs]), make([rows, hidden])];
  const gradient = Tensor.zeros({ shape: [experts, outputs, hidden], dtype: 'float32' });
  const denseGradient = Tensor.zeros({ shape: [outputs, hidden], dtype: 'float32' });
  const bodies = {
    'dense forward': () => matmul({ output: denseOutput, left: input, right: weight, transposeRight: true }),
    forward: () => groupedMatmul({ output, input, weights, offsets, transposeWeights: true }),
    'dense input gradient': () => matmul({ output: denseInputGradient, left: outputGradient, right: weight }),
    'input gradient': () => groupedMatmul({ output: inputGradient, input: outputGradient, weights, offsets }),
    'dense weight gradient': () =>
      matmul({
        output: denseGradient,
        left: outputGradient,
        right: input,
        transposeLeft: true,
        accumulate: true,
      }),
    'weight gradient': () =>
      groupedWeightGradient({ weightGradient: gradient, outputGradient, input, offsets, accumulate: true }),
  };
  for (const body of Object.values(bodies)) body();
  // all experts have the same weights
  expectSame('forward', output, denseOutput);
  expectSame('input gradient', inputGradient, denseInputGradient);
  const best = timed(bodies);
  const flops = 2 * rows * outputs * hidden;
  for (const name of ['forward', 'input gradient', 'weight gradient']) {
    print(
      `${name}, ${experts} experts, ${routing}, ${dtype}`,
      best[name],
      best[`dense ${name}`],
      'GFLOP/s',
      flops,
    );
  }
}

function movements(dtype) {
  const { positions, sources, offsets } = makeGroups('skewed');
  const bytes = dtype === 'float32' ? 4 : 2;
  const input = random([tokens, hidden], dtype);
  const permuted = permuteRows({ input, sources, topK });
  const output = Tensor.empty(input);
  const expanded = random([rows, 2 * feedForward], dtype);
  const probabilities = random([rows], 'float32');
  const activated = Tensor.empty({ shape: [rows, feedForward], dtype });
  const [expandedGradient, ofProbabilities] = [Tensor.empty(expanded), Tensor.empty(probabilities)];
  const calls = {
    'permute rows': [
      (rows + tokens) * hidden * bytes,
      () => permuteRows({ output: permuted, input, sources, topK }),
    ],
    'combine rows': [
      (rows + tokens) * hidden * bytes,
      () => combineRows({ output, rows: permuted, positions }),
    ],
    'swiglu forward': [
      rows * 3 * feedForward * bytes,
      () =>
        expertActivationForward({
          output: activated,
          input: expanded,
          probabilities,
          offsets,
          activation: 'swiglu',
        }),
    ],
    'dense swiglu forward': [
      rows * 3 * feedForward * bytes,
      () => biasSwigluForward({ output: activated, input: expanded }),
    ],
    'swiglu backward': [
      rows * 5 * feedForward * bytes,
      () =>
        expertActivationBackward({
          inputGradient: expandedGradient,
          probabilitiesGradient: ofProbabilities,
          outputGradient: activated,
          input: expanded,
          probabilities,
          offsets,
          activation: 'swiglu',
        }),
    ],
    'dense swiglu backward': [
      rows * 5 * feedForward * bytes,
      () =>
        biasSwigluBackward({
          inputGradient: expandedGradient,
          outputGradient: activated,
          input: expanded,
        }),
    ],
  };
  report(calls, dtype);
}

function routers() {
  const scoreFunction = 'sigmoid';
  const logits = random([tokens, experts], 'float32');
  const { probabilities, experts: chosen } = routerForward({ logits, topK, scoreFunction });
  const gradient = Tensor.empty(logits);
  const statistics = { logits, topK, scoreFunction, numSequences: 2 };
  const sums = routerStatisticsForward(statistics);
  const groups = groupByExpert({ experts: chosen, numExperts: experts });
  const bytes = 4 * tokens * experts;
  report(
    {
      'router forward': [
        bytes,
        () => routerForward({ probabilities, experts: chosen, logits, scoreFunction }),
      ],
      'router backward': [
        2 * bytes,
        () =>
          routerBackward({
            logitsGradient: gradient,
            probabilitiesGradient: probabilities,
            logits,
            experts: chosen,
            scoreFunction,
          }),
      ],
      'statistics forward': [bytes, () => routerStatisticsForward({ ...sums, ...statistics })],
      'statistics backward': [
        2 * bytes,
        () =>
          routerStatisticsBackward({
            logitsGradient: gradient,
            scoreGradients: sums.scoreSums,
            squareGradients: sums.squaredLogSumExp,
            logits,
            scoreFunction,
            numSequences: 2,
          }),
      ],
      'group by expert': [12 * rows, () => groupByExpert({ ...groups, experts: chosen })],
    },
    'float32',
  );
}

function report(calls, dtype) {
  for (const [name, [bytes, body]] of Object.entries(calls)) {
    const from = Tensor.zeros({ shape: [Math.round(bytes / 8)], dtype: 'float32' });
    const to = Tensor.empty(from);
    const best = timed({ copy: () => cast({ output: to, input: from }), call: body });
    print(`${name}, ${dtype}`, best.call, best.copy, 'GB/s', bytes);
  }
}

const { instructionSet, numThreads } = hostInformation();
console.log(
  `${instructionSet}, ${numThreads} threads; last column: the time of a dense matmul, or of a copy, is 1`,
);
for (const dtype of flags.dtypes.split(',')) {
  for (const routing of Object.keys(routings)) matmuls(dtype, routing);
  movements(dtype);
}
routers();
