#!/usr/bin/env node
/**
 * Compares the training step of small GPTs on one thread with several threads. Blocks of steps alternate,
 * so that both run under the same conditions. Each line of output describes a pair of blocks: the model FLOPs
 * of a micro-batch, the milliseconds of a step (median and minimum of the block) on 1 and on N threads, and
 * the number of cores that other processes used in the meantime. First compares the losses, so that only
 * equal computations are timed.
 *   npm run dev -- threads-of-small-models --threads 2 --pairs 10 --block-ms 250 > pairs.jsonl
 */
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { setNumThreads } from '@mtl/kernels';
import { buildGptStages, gptMatmuls, numLossTokens, paddedVocabularySize } from '@mtl/models';
import { AdamwOptimizer, createStores, LossScaler, NumMicroBatches } from '@mtl/optimizer';
import { Pipeline } from '@mtl/pipeline';
import { oneStage } from '@mtl/pipeline/schedules';
import { modelFlops, Trainer } from '@mtl/trainer';

const { values } = parseArgs({
  options: {
    threads: { type: 'string', default: '2' },
    pairs: { type: 'string', default: '10' },
    'block-ms': { type: 'string', default: '250' },
    /** measures only sizes whose line begins with this string, such as 2x64 */
    only: { type: 'string', default: '' },
  },
});
const numThreads = Number(values.threads);

/**
 * [L, H, A, S, B]: number of layers, hidden size, number of heads, sequence length, micro-batch size. The
 * vocabulary is 256 bytes.
 */
const sizes = [
  [2, 32, 4, 32, 1],
  [2, 32, 4, 32, 8],
  [2, 64, 4, 32, 1],
  [2, 64, 4, 64, 4],
  [2, 64, 4, 64, 12],
  [4, 128, 4, 64, 4],
  [4, 128, 4, 64, 12],
  [4, 128, 4, 128, 12],
  [6, 192, 6, 128, 12],
  [6, 384, 6, 256, 4],
  [6, 384, 6, 256, 16],
];

function makeTrainer([numLayers, hiddenSize, numAttentionHeads, sequenceLength, microBatchSize]) {
  const vocabularySize = 256;
  const model = {
    numLayers,
    hiddenSize,
    numAttentionHeads,
    vocabularySize,
    ffnHiddenSize: 4 * hiddenSize,
    maxPositionEmbeddings: sequenceLength,
    makeVocabularySizeDivisibleBy: 128,
    tieEmbeddings: true,
    layerNormEpsilon: 1e-5,
    geluKind: 'tanh',
    hiddenDropout: 0,
    attentionDropout: 0,
    initMethodStd: 0.02,
  };
  const size = microBatchSize * sequenceLength;
  const token = (index) => (Math.imul((index + 1) >>> 0, 2654435761) >>> 8) % vocabularySize;
  const batch = {
    batchSize: microBatchSize,
    sequenceLength,
    tokens: Int32Array.from({ length: size }, (_, index) => token(index)),
    labels: Int32Array.from({ length: size }, (_, index) => token(index + 1)),
    lossMask: new Float32Array(size).fill(1),
    positionIds: Int32Array.from({ length: size }, (_, index) => Math.floor(index / microBatchSize)),
    keyStart: undefined,
    sampleNumbers: Float64Array.from({ length: microBatchSize }, (_, b) => b),
  };
  async function* batches() {
    for (;;) yield batch;
  }
  const { placement } = oneStage(1);
  const { stages, parameters } = buildGptStages({
    model,
    device: 'cpu',
    dtype: 'float32',
    seed: 1234,
    placement,
    rank: 0,
    layers: [{ start: 0, end: numLayers }],
  });
  const dtype = 'float32';
  const pipeline = new Pipeline({ stages, schedule: oneStage, dtype, device: 'cpu' });
  const stores = createStores(parameters, { device: 'cpu', dtype, seed: 1234 });
  const optimizer = new AdamwOptimizer(stores, {
    beta1: 0.9,
    beta2: 0.95,
    epsilon: 1e-8,
    weightDecay: 0.01,
    clipGrad: 1,
  });
  const flops = modelFlops({
    batchSize: microBatchSize,
    sequenceLength,
    headWeights: paddedVocabularySize(model) * hiddenSize,
    ...gptMatmuls(model),
  });
  const trainer = new Trainer({
    losses: [{ name: 'lm_loss', per: 'token', count: numLossTokens }],
    pipeline,
    optimizer,
    sequenceLength,
    flopsPerSample: flops / microBatchSize,
    learningRate: () => 1e-4,
    lossScaler: new LossScaler({ kind: 'constant', scale: 1 }),
    microBatches: new NumMicroBatches({
      globalBatchSize: microBatchSize,
      microBatchSize,
      dataParallelSize: 1,
    }),
    device: 'cpu',
    batches: batches(),
    trainIterations: Number.MAX_SAFE_INTEGER,
  });
  return { steps: trainer[Symbol.asyncIterator](), flops };
}

/**
 * Returns for how many seconds cores were idle, summed over all cores. The remaining time was used, or taken
 * by the virtual machine's host (steal).
 */
function idleSeconds() {
  const [, , , , idle, iowait] = readFileSync('/proc/stat', 'utf8').split(/\s+/).map(Number);
  return (idle + iowait) / 100;
}

const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

/** Runs steps for a while with the given number of threads. */
async function block(steps, threads) {
  setNumThreads(threads, { pin: true });
  await steps.next();
  const [start, idle, cpu] = [performance.now(), idleSeconds(), process.cpuUsage()];
  const times = [];
  while (performance.now() - start < Number(values['block-ms']) || times.length < 3) {
    times.push((await steps.next()).value.stepMs);
  }
  const seconds = (performance.now() - start) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const others = cpus().length - (idleSeconds() - idle + (user + system) / 1e6) / seconds;
  return {
    ms: median(times),
    leastMs: Math.min(...times),
    meanMs: (seconds * 1000) / times.length,
    others: Math.max(0, others),
  };
}

for (const size of sizes) {
  const name = `${size[0]}x${size[1]} S${size[3]} B${size[4]}`;
  if (!name.startsWith(values.only)) continue;
  const losses = [];
  for (const threads of [1, numThreads]) {
    setNumThreads(threads, { pin: true });
    const { steps } = makeTrainer(size);
    for (let step = 0; step < 3; step++) losses.push((await steps.next()).value.loss);
  }
  if (Math.abs(losses[2] / losses[5] - 1) > 1e-5) throw new Error(`${name}: losses differ: ${losses}`);
  const { steps, flops } = makeTrainer(size);
  for (let pair = 0; pair < Number(values.pairs); pair++) {
    // the two thread counts take turns in being first
    const order = pair % 2 === 0 ? [1, numThreads] : [numThreads, 1];
    const blocks = {};
    for (const threads of order) blocks[threads] = await block(steps, threads);
    const [one, several] = [blocks[1], blocks[numThreads]];
    const round = (value) => Number(value.toFixed(4));
    console.log(
      JSON.stringify({
        size: name,
        flops,
        threads: numThreads,
        one_ms: round(one.ms),
        several_ms: round(several.ms),
        speedup: round(one.ms / several.ms),
        one_least_ms: round(one.leastMs),
        several_least_ms: round(several.leastMs),
        mean_speedup: round(one.meanMs / several.meanMs),
        others_one: round(one.others),
        others_several: round(several.others),
      }),
    );
  }
}
process.exit(0);
