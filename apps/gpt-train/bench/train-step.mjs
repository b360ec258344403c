#!/usr/bin/env node
/**
 * Times the training step of a preset on random tokens, as shared yardsticks do: one JSON line with tokens/s (median
 * step), losses, peak memory, the share of a step outside native kernels and the time data were waited for.
 *   node bench/train-step.mjs --preset char-10m --dtype float32 --threads 2 --iters 10 --warmup 3 [--micro-batch N]
 */
import { parseArgs } from 'node:util';
import { memoryStatistics, operationStatistics, setNumThreads } from '@mtl/kernels';
import { GptStage, numLossTokens, numParameters, paddedVocabularySize } from '@mtl/models';
import { AdamwOptimizer, LossScaler, NumMicroBatches, ParameterBuffers } from '@mtl/optimizer';
import { modelFlops, Trainer } from '@mtl/trainer';

// layers, hidden, heads, sequence, vocabulary, micro-batch: the shapes of the PyTorch yardstick
const presets = {
  'char-10m': [6, 384, 6, 256, 128, 16],
  'gpt2-124m': [12, 768, 12, 1024, 50304, 2],
  'gpt2-355m': [24, 1024, 16, 1024, 50304, 1],
};

const { values } = parseArgs({
  options: {
    preset: { type: 'string', default: 'char-10m' },
    dtype: { type: 'string', default: 'float32' },
    threads: { type: 'string', default: '2' },
    iters: { type: 'string', default: '10' },
    warmup: { type: 'string', default: '3' },
    'micro-batch': { type: 'string' },
    /** Prints where the time goes, by operation, to standard error. */
    profile: { type: 'boolean', default: false },
  },
});
const [numLayers, hiddenSize, numAttentionHeads, sequenceLength, vocabularySize, usualBatch] =
  presets[values.preset];
const microBatchSize = Number(values['micro-batch'] ?? usualBatch);
const [iterations, warmup] = [Number(values.iters), Number(values.warmup)];
const dtype = values.dtype;
const model = {
  numLayers,
  hiddenSize,
  ffnHiddenSize: 4 * hiddenSize,
  numAttentionHeads,
  maxPositionEmbeddings: sequenceLength,
  vocabularySize,
  makeVocabularySizeDivisibleBy: 128,
  tieEmbeddings: true,
  layerNormEpsilon: 1e-5,
  geluKind: 'tanh',
  hiddenDropout: 0,
  attentionDropout: 0,
  initMethodStd: 0.02,
};

/** Eight random micro-batches in turn. The multiplicative hash spreads consecutive numbers over the vocabulary. */
function randomBatch(number) {
  const size = microBatchSize * sequenceLength;
  const token = (index) => Math.imul((index + number * size + 1) >>> 0, 2654435761) >>> 8;
  return {
    batchSize: microBatchSize,
    sequenceLength,
    tokens: Int32Array.from({ length: size }, (_, index) => token(index) % vocabularySize),
    labels: Int32Array.from({ length: size }, (_, index) => token(index + 1) % vocabularySize),
    lossMask: new Float32Array(size).fill(1),
    positionIds: Int32Array.from({ length: size }, (_, index) => index % sequenceLength),
    keyStart: undefined,
    sampleNumbers: Float64Array.from({ length: microBatchSize }, (_, b) => number * microBatchSize + b),
  };
}
const prepared = Array.from({ length: 8 }, (_, number) => randomBatch(number));
async function* batches() {
  for (let step = 0; ; step++) yield prepared[step % prepared.length];
}

setNumThreads(Number(values.threads), { pin: true });
const stage = new GptStage({ model, device: 'cpu', dtype, seed: 1234 });
const buffers = new ParameterBuffers(stage.parameters, { device: 'cpu', dtype });
buffers.initialize(1234);
const optimizer = new AdamwOptimizer(buffers, {
  ...{ beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0.01, clipGradient: 1 },
});
const flopsPerSample = modelFlops({
  ...{ batchSize: 1, sequenceLength, numLayers, hiddenSize },
  ...{ ffnHiddenSize: model.ffnHiddenSize, vocabSize: paddedVocabularySize(model) },
});
const trainer = new Trainer({
  ...{ stage, optimizer, numLossTokens, sequenceLength, flopsPerSample },
  learningRate: () => 1.5e-4,
  lossScaler: new LossScaler({ kind: 'constant', scale: 1 }),
  microBatches: new NumMicroBatches({ globalBatchSize: microBatchSize, microBatchSize, dataParallelSize: 1 }),
  device: 'cpu',
  batches: batches(),
  trainIterations: iterations + warmup,
});

const kernelSeconds = () => operationStatistics().reduce((sum, { seconds }) => sum + seconds, 0);
const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const [times, losses, overheads] = [[], [], []];
let kernels = kernelSeconds();
for await (const { iteration, stepMs, lmLoss } of trainer) {
  const now = kernelSeconds();
  losses.push(Number(lmLoss.toFixed(5)));
  if (iteration > warmup) {
    times.push(stepMs);
    overheads.push(1 - ((now - kernels) * 1000) / stepMs);
  }
  kernels = now;
}
if (values.profile) {
  const steps = iterations + warmup;
  const rows = operationStatistics().filter(({ calls }) => calls > 0);
  for (const { name, calls, seconds } of rows.sort((a, b) => b.seconds - a.seconds)) {
    console.error(
      `${name.padEnd(32)} ${(calls / steps).toFixed(0).padStart(5)} calls ${((seconds / steps) * 1000).toFixed(2).padStart(9)} ms a step`,
    );
  }
}
const stepMs = median(times);
console.log(
  JSON.stringify({
    program: 'mtl',
    preset: values.preset,
    dtype,
    threads: Number(values.threads),
    micro_batch: microBatchSize,
    params: numParameters(model),
    step_ms: Number(stepMs.toFixed(3)),
    tokens_per_s: Number(((microBatchSize * sequenceLength * 1000) / stepMs).toFixed(1)),
    model_tflops: Number(((flopsPerSample * microBatchSize) / stepMs / 1e9).toFixed(4)),
    peak_bytes: process.resourceUsage().maxRSS * 1024,
    allocator_peak_bytes: memoryStatistics('cpu').peakBytes,
    outside_kernels: Number(median(overheads).toFixed(5)),
    data_wait_ms: Number(trainer.dataWaitMs.toFixed(3)),
    losses,
  }),
);
