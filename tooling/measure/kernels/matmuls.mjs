#!/usr/bin/env node
/**
 * npm run dev -- matmuls: times the matmuls of a training step with our kernels, oneDNN and PyTorch, in
 * turns, with operands stored as in training. Prints GFLOP/s (medians), and the ratio to the best of the
 * other programs.
 * Also prints both for a complete step, in which each shape is weighted by its FLOPs.
 *   npm run dev -- matmuls [--shapes gpt2-124m,...] [--dtypes float32,bfloat16] [--rounds 9] [--threads 2]
 *     [--instruction-set avx2]   of our kernels and of all others
 * MTL_PEER_PYTHON names a Python with torch. Without it, PyTorch is left out. MTL_OTHER_TIME_MATMULS is a
 * command that runs time_matmuls, built with a different version of oneDNN.
 */
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Timer } from './timer.mjs';

/** The sizes of transformers, and the number of tokens in a micro-batch. */
const models = {
  'gpt2-124m': { tokens: 2048, hidden: 768, feedForward: 3072, keyValue: 768, layers: 12, vocabulary: 50304 },
  'char-10m': { tokens: 4096, hidden: 384, feedForward: 1536, keyValue: 384, layers: 6, vocabulary: 256 },
  'bert-base': { tokens: 2048, hidden: 768, feedForward: 3072, keyValue: 768, layers: 12, vocabulary: 30592 },
  'smollm-135m': {
    tokens: 2048,
    hidden: 576,
    feedForward: 1536,
    keyValue: 192,
    layers: 30,
    vocabulary: 49152,
    gated: true,
  },
};

/** The size in bytes, in float32, of each chunk of logits. Logits are computed chunk by chunk. */
const logitsBytes = 128 * 2 ** 20;

const forward = (rows, columns, inner) => ({ rows, columns, inner, transposes: [0, 1], accumulate: 0 });

/** Returns the matmuls of `batch` pairs of matrices. */
const grouped = (batch, shape) => ({ ...shape, batch, name: `${batch} x ${shape.name}` });

/** Returns the three matmuls of a linear layer. */
function linear(name, tokens, inputs, outputs, calls) {
  return [
    { name: `${name} forward`, calls, ...forward(tokens, outputs, inputs) },
    {
      name: `${name} input gradient`,
      calls,
      rows: tokens,
      columns: inputs,
      inner: outputs,
      transposes: [0, 0],
      accumulate: 0,
    },
    {
      name: `${name} weight gradient`,
      calls,
      rows: outputs,
      columns: inputs,
      inner: tokens,
      transposes: [1, 0],
      accumulate: 1,
    },
  ];
}

function listShapes(name) {
  if (name === 'few-rows') {
    return [1, 2, 4, 5, 8, 16, 32, 64].map((rows) => ({
      name: `${rows} rows`,
      calls: 1,
      ...forward(rows, 3072, 768),
    }));
  }
  if (name === 'small') {
    const squares = [32, 64, 128, 256, 512].map((side) => ({
      name: `square ${side}`,
      calls: 1,
      ...forward(side, side, side),
    }));
    return [...squares, ...linear('LoRA down', 2048, 768, 16, 1), ...linear('LoRA up', 2048, 16, 768, 1)];
  }
  if (name === 'grouped') {
    return [
      ...[64, 128, 256].map((side) =>
        grouped(24, { name: `square ${side}`, calls: 1, ...forward(side, side, side) }),
      ),
      ...linear('expert', 256, 768, 3072, 1).map((shape) => grouped(8, shape)),
    ];
  }
  const model = models[name];
  if (model === undefined)
    throw new Error(
      `unknown shapes ${name}; known: ${[...Object.keys(models), 'few-rows', 'small', 'grouped']}`,
    );
  const { tokens, hidden, feedForward, keyValue, layers, vocabulary, gated } = model;
  const chunk = Math.min(tokens, Math.floor(logitsBytes / 4 / vocabulary));
  return [
    ...linear('query, key, value', tokens, hidden, hidden + 2 * keyValue, layers),
    ...linear('projection', tokens, hidden, hidden, layers),
    ...linear('feed-forward 1', tokens, hidden, (gated ? 2 : 1) * feedForward, layers),
    ...linear('feed-forward 2', tokens, feedForward, hidden, layers),
    ...linear('logits', chunk, hidden, vocabulary, Math.ceil(tokens / chunk)),
  ];
}

const formatRate = (flops, seconds) =>
  Number.isFinite(seconds) ? (flops / seconds / 1e9).toFixed(1) : 'none';
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

const { values: options } = parseArgs({
  options: {
    shapes: { type: 'string', default: 'gpt2-124m,char-10m' },
    dtypes: { type: 'string', default: 'float32,bfloat16' },
    rounds: { type: 'string', default: '9' },
    threads: { type: 'string', default: '2' },
    'instruction-set': { type: 'string' },
  },
});
/** The variables that restrict oneDNN, MKL and PyTorch to an instruction set. */
const limits = {
  avx2: { ONEDNN_MAX_CPU_ISA: 'AVX2', MKL_ENABLE_INSTRUCTIONS: 'AVX2', ATEN_CPU_CAPABILITY: 'avx2' },
};
const level = options['instruction-set'];
if (level !== undefined && limits[level] === undefined)
  throw new Error(`unknown instruction set ${level}; known: ${Object.keys(limits)}`);
const file = (path) => fileURLToPath(new URL(path, import.meta.url));
const python = process.env.MTL_PEER_PYTHON;
const environment = { OMP_NUM_THREADS: options.threads, ...limits[level] };
const other = process.env.MTL_OTHER_TIME_MATMULS?.split(' ');
const timers = [
  new Timer(
    file('../../../packages/kernels/build/Release/time_matmuls'),
    [level ?? 'best', 'all'],
    environment,
  ),
];
const names = ['ours', 'oneDNN'];
if (other !== undefined) {
  timers.push(new Timer(other[0], [...other.slice(1), level ?? 'best', 'library'], environment));
  names.push('another');
}
if (python !== undefined) {
  timers.push(new Timer(python, [file('time_matmuls_of_pytorch.py'), options.threads], environment));
  names.push('PyTorch');
}
const versions = [];
for (const timer of timers) versions.push(await timer.readLine());
console.log(`${cpus()[0].model.trim()}; ${versions.join('; ')}; medians of ${options.rounds} rounds`);

const row = (name, cells) =>
  console.log(`${name.padEnd(36)}${cells.map((cell) => cell.padStart(10)).join('')}`);

for (const shapes of options.shapes.split(',')) {
  for (const dtype of options.dtypes.split(',')) {
    row(`${shapes}, ${dtype}: GFLOP/s`, [...names, 'ratio']);
    const step = names.map(() => 0);
    let stepFlops = 0;
    for (const shape of listShapes(shapes)) {
      const { name, calls, batch = 1, rows, columns, inner, transposes, accumulate } = shape;
      const seconds = names.map(() => []);
      for (let round = 0; round < Number(options.rounds); round++) {
        const line = [batch, rows, columns, inner, ...transposes, accumulate, dtype].join(' ');
        const answers = [];
        for (const timer of timers) answers.push(...(await timer.ask(line)));
        for (const [i, answer] of answers.entries()) seconds[i].push(answer);
      }
      const flops = 2 * batch * rows * columns * inner;
      // a library returns -1 if it cannot compute this matmul
      const medians = seconds.map(median).map((value) => (value < 0 ? Number.POSITIVE_INFINITY : value));
      const ratio = Math.min(...medians.slice(1)) / medians[0];
      row(name, [...medians.map((value) => formatRate(flops, value)), ratio.toFixed(2)]);
      for (const [i, value] of medians.entries()) step[i] += value * calls;
      stepFlops += flops * calls;
    }
    row('a step', [
      ...step.map((value) => formatRate(stepFlops, value)),
      (Math.min(...step.slice(1)) / step[0]).toFixed(2),
    ]);
  }
}
for (const timer of timers) timer.end();
