/**
 * Measures how fast a GPT generates one sequence (or several at once), compared with the rate at which the
 * same process reads memory: because a token reads all weights once, the ratio of the two rates shows how
 * much faster generation could become. The weights are random. Groups of tokens alternate with sums over a
 * tensor of 1 GiB, which is larger than any cache, and both are timed.
 *   npm run dev -- generation-rate [--preset gpt2-124m] [--dtype float32 --dtype bfloat16] [--threads 2]
 *     [--sequences 1] [--prompt 8] [--groups 12] [--tokens 8] [--profile]
 * An observer also times individual operations; without an observer, a token is a recorded graph. For each
 * operation of a token, the fastest time among all tokens is taken, and these times are added. On a busy
 * machine, this sum is more useful than the time of a whole token, because no whole token is undisturbed, but
 * many operations are.
 * `--profile` prints these times by operation.
 */
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { allocateParameters, initializeParameter } from '@mtl/autograd';
import { generate } from '@mtl/inference';
import {
  bytesPerElement,
  hostInformation,
  observeOperations,
  setNumThreads,
  sumOfSquares,
  Tensor,
  tidy,
} from '@mtl/kernels';
import { buildGptStages, GptLanguageModel } from '@mtl/models';
import { modelOfPreset } from './benchmark-presets.mjs';

const { values: flags } = parseArgs({
  options: {
    preset: { type: 'string', default: 'gpt2-124m' },
    dtype: { type: 'string', multiple: true, default: ['float32', 'bfloat16'] },
    threads: { type: 'string', default: '2' },
    sequences: { type: 'string', default: '1' },
    prompt: { type: 'string', default: '8' },
    groups: { type: 'string', default: '12' },
    tokens: { type: 'string', default: '8' },
    profile: { type: 'boolean', default: false },
  },
});
const [numSequences, promptLength, numGroups, numTokens] = [
  Number(flags.sequences),
  Number(flags.prompt),
  Number(flags.groups),
  Number(flags.tokens),
];
setNumThreads(Number(flags.threads), { pin: true });

const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const [numSlices, sliceBytes] = [64, 2 ** 24];
const memory = Tensor.empty({ shape: [numSlices, sliceBytes / 4], dtype: 'float32' });
memory.zero();
const total = Tensor.empty({ shape: [1], dtype: 'float64' });

/** Reads `memory` once, slice by slice. Returns the seconds that each slice took. */
function timeSlices() {
  return Array.from({ length: numSlices }, (_, slice) =>
    tidy(() => {
      const input = memory.rows(slice, slice + 1);
      const start = performance.now();
      sumOfSquares({ output: total, input });
      return (performance.now() - start) / 1000;
    }),
  );
}

/** Builds the model with random weights. Also returns the number of bytes of weights that a token reads. */
function buildModel(dtype) {
  const model = modelOfPreset(flags.preset);
  const layers = [{ start: 0, end: model.numLayers }];
  const { stages, parameters } = buildGptStages({
    model,
    device: 'cpu',
    dtype,
    seed: 1,
    layers,
    placement: [0],
    rank: 0,
  });
  const storage = allocateParameters(parameters, { device: 'cpu', dtype, zeroed: false });
  for (const parameter of parameters) initializeParameter(parameter, parameter.data, 1);
  // a token reads one row of the position embeddings; the tied word embeddings are read as the output head
  const read = parameters.filter(({ name }) => !name.includes('position_embeddings'));
  return {
    model: new GptLanguageModel(stages.get(0)),
    weightBytes: sum(read.map(({ data }) => data.size * bytesPerElement(data.dtype))),
    dispose: () => storage.dispose(),
  };
}

/** Wraps a model and keeps the fastest time of each operation over all passes. */
class OperationTimes {
  /** The operations of a pass, in order. */
  fastest = [];

  constructor(model) {
    this.model = {
      vocabularySize: model.vocabularySize,
      maximumContext: model.maximumContext,
      newCache: (options) => model.newCache(options),
      forward: (call) => this.observe(() => model.forward(call)),
    };
  }

  observe(pass) {
    let index = 0;
    const record = (name, operands, { seconds }) => {
      const { shape } = operands.weight ?? operands.right ?? operands.input ?? { shape: [] };
      this.fastest[index] ??= { name: `${name} ${shape.join(' x ')}`, seconds };
      this.fastest[index].seconds = Math.min(this.fastest[index].seconds, seconds);
      index += 1;
    };
    return observeOperations(record, pass);
  }
}

/** Generates groups of tokens from random prompts. Calls `onToken` for each token of the last sequence. */
async function generateGroups(model, onToken) {
  const prompts = Array.from({ length: numSequences }, (_, sequence) =>
    Array.from({ length: promptLength }, (_, position) => 1 + sequence * promptLength + position),
  );
  const maxNewTokens = 1 + numGroups * (numTokens + 1);
  for await (const { sequence } of generate({
    model,
    prompts,
    maxNewTokens,
    sampling: { temperature: 0 },
    logProbabilities: false,
  })) {
    if (sequence === numSequences - 1) onToken();
  }
}

/**
 * Times groups of tokens and slices of memory in turns. Returns the seconds that each token and each slice
 * took.
 */
async function timeTokens(model) {
  const [tokens, slices] = [[], []];
  let [start, inGroup] = [0, 0];
  await generateGroups(model, () => {
    // the first token of a group is not counted, because reading the memory has displaced the weights from
    // all caches
    if (inGroup > 1) tokens.push((performance.now() - start) / 1000);
    if (inGroup % (numTokens + 1) === 0) {
      inGroup = 0;
      slices.push(...timeSlices());
    }
    inGroup += 1;
    start = performance.now();
  });
  return { tokens, slices };
}

/** Returns the fastest time of each operation for a token. */
async function timeOperations(original) {
  const times = new OperationTimes(original);
  let isPrompt = true;
  await generateGroups(times.model, () => {
    if (isPrompt) times.fastest = []; // the operations of the prompt are others
    isPrompt = false;
  });
  return times.fastest;
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** Prints how many milliseconds each operation takes per token. */
function printProfile(operations) {
  const rows = new Map();
  for (const { name, seconds } of operations) rows.set(name, [...(rows.get(name) ?? []), seconds * 1000]);
  for (const [name, ms] of [...rows].sort(([, a], [, b]) => sum(b) - sum(a))) {
    console.log(
      `  ${name.padEnd(44)} ${String(ms.length).padStart(3)} calls ${sum(ms).toFixed(3).padStart(8)} ms`,
    );
  }
}

console.log(
  `${cpus()[0].model.trim()}, ${hostInformation().instructionSet}, ${flags.threads} threads, ${flags.preset}, ` +
    `${numSequences} sequences, prompt of ${promptLength}`,
);
for (const dtype of flags.dtype) {
  const { model, weightBytes, dispose } = buildModel(dtype);
  const { tokens, slices } = await timeTokens(model);
  const operations = await timeOperations(model);
  const fastest = Math.min(...slices);
  for (const [name, token, slice] of [
    ['median', median(tokens), median(slices)],
    ['fastest', Math.min(...tokens), fastest],
    ['operations alone', sum(operations.map(({ seconds }) => seconds)), fastest],
  ]) {
    const [rate, memoryRate] = [weightBytes / token, sliceBytes / slice];
    console.log(
      `${dtype}, ${name}: ${(numSequences / token).toFixed(1)} tokens/s, ${(token * 1000).toFixed(2)} ms; ` +
        `weights ${(rate / 1e9).toFixed(1)} GB/s, memory ${(memoryRate / 1e9).toFixed(1)} GB/s, ` +
        `share ${(rate / memoryRate).toFixed(3)}`,
    );
  }
  if (flags.profile) printProfile(operations);
  dispose();
}
