#!/usr/bin/env node
/**
 * Measures the time that the host needs for a micro-batch of a GPT on device cuda, with and without graphs.
 * It uses the emulation with kernels and matmuls that do nothing, so that only TypeScript, the addon and the
 * calls of the CUDA runtime take time. The CUDA runtime itself is not included: on a GPU, the driver needs
 * another 2 to 4 microseconds for a launch. If the device takes longer for the same micro-batch, the GPU
 * never waits for the host.
 *   npm run dev -- host-time [--layers 12] [--batch 8] [--length 1024] [--micro-batches 20]
 *     [--recompute]
 * Build first: npm run dev -- test:cuda --emulation --build-only. Sizes that do not affect the number of
 * calls are small: 64 features per layer. node --cpu-prof tooling/measure/runs/cuda/host-time.mjs shows the
 * time of each function.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { emulatedFiles, emulatedLibraries } from '@mtl/cuda-emulation/libraries';

const number = (value) => ({ type: 'string', default: String(value) });
const { values } = parseArgs({
  options: {
    layers: number(12),
    batch: number(8),
    length: number(1024),
    'micro-batches': number(20),
    recompute: { type: 'boolean', default: false },
  },
});
const libraries = emulatedLibraries();
if (libraries === undefined) {
  console.error(
    `error[MTL_CUDA_LIBRARY]: the emulation is not built: ${emulatedFiles.join(', ')}\n  remedy: npm run dev -- test:cuda --emulation --build-only`,
  );
  process.exit(2);
}
const directory = mkdtempSync(join(tmpdir(), 'mtl-host-time-'));
Object.assign(process.env, {
  ...libraries,
  MTL_EMULATION_IDLE: '1',
  MTL_EMULATION_COUNTS: join(directory, 'counts'),
});
// these modules are imported after the variables are set, because the library reads the variables when it is
// opened
const [
  { operationStatistics, openDevice, Tensor },
  { GptStage },
  { ReplicatedStore },
  pipelines,
  schedules,
  counts,
] = await Promise.all([
  import('@mtl/kernels'),
  import('@mtl/models'),
  import('@mtl/optimizer'),
  import('@mtl/pipeline'),
  import('@mtl/pipeline/schedules'),
  import('@mtl/cuda-emulation/counts'),
]);
openDevice('cuda');

const [numLayers, batchSize, sequenceLength] = [values.layers, values.batch, values.length].map(Number);
const [device, dtype, vocabularySize] = ['cuda', 'bfloat16', 50257];
const model = {
  numLayers,
  hiddenSize: 64,
  ffnHiddenSize: 256,
  numAttentionHeads: 2,
  vocabularySize,
  makeVocabularySizeDivisibleBy: 128,
  maxPositionEmbeddings: sequenceLength,
  hiddenDropout: 0.1,
  attentionDropout: 0.1,
  layerNormEpsilon: 1e-5,
  geluKind: 'tanh',
  initMethodStd: 0.02,
  tieEmbeddings: true,
};
const size = batchSize * sequenceLength;
const batches = Array.from({ length: Number(values['micro-batches']) }, (_, number) => ({
  batchSize,
  sequenceLength,
  keyStart: undefined,
  tokens: Int32Array.from({ length: size }, (_, index) => (index * 31 + number) % vocabularySize),
  labels: Int32Array.from({ length: size }, (_, index) => (index * 37 + number) % vocabularySize),
  lossMask: new Float32Array(size).fill(1),
  positionIds: Int32Array.from({ length: size }, (_, index) => Math.floor(index / batchSize)),
  sampleNumbers: Float64Array.from({ length: batchSize }, (_, b) => number * batchSize + b),
}));
const numOperations = () => operationStatistics().reduce((sum, { calls }) => sum + calls, 0);

/**
 * Returns the times of the fastest and the median micro-batch, in milliseconds, and the number of calls to
 * the device.
 */
function measure(isGraphed) {
  const recomputation = values.recompute
    ? { granularity: 'full', method: 'uniform', numLayers: 1 }
    : undefined;
  const stage = new GptStage({ model, device, dtype, seed: 1, ...(recomputation && { recomputation }) });
  const store = new ReplicatedStore(stage.parameters, { device, dtype });
  const graphed = isGraphed
    ? new pipelines.GraphedStage({ stage, device, onMessage: (text) => console.log(text) })
    : undefined;
  const stages = new Map([[0, graphed ?? stage]]);
  const pipeline = new pipelines.Pipeline({ stages, schedule: schedules.oneStage, dtype, device });
  const run = (some) => pipeline.run({ batches: some, lossFactors: { lm_loss: 1 / size }, onLoss: () => {} });
  // the first rounds choose algorithms, record passes and compile functions
  for (let round = 0; round < 3; round++) run(batches);
  const before = { counts: counts.emulationCounts(), operations: numOperations() };
  const times = batches.map((batch) => {
    const start = performance.now();
    run([batch]);
    return performance.now() - start;
  });
  const after = { counts: counts.emulationCounts(), operations: numOperations() };
  graphed?.dispose();
  store.dispose();
  times.sort((a, b) => a - b);
  return {
    fastest: times[0],
    median: times[Math.floor(times.length / 2)],
    operations: (after.operations - before.operations) / batches.length,
    enqueued: (after.counts.enqueued - before.counts.enqueued) / batches.length,
  };
}

function measureUpload() {
  const start = performance.now();
  for (const { tokens } of batches) {
    Tensor.from(tokens, { shape: [sequenceLength, batchSize], dtype: 'int32', device }).dispose();
  }
  return (performance.now() - start) / batches.length;
}

console.log(`${numLayers} layers, ${batchSize} x ${sequenceLength} tokens, vocabulary ${vocabularySize}`);
for (const isGraphed of [false, true]) {
  const { fastest, median, operations, enqueued } = measure(isGraphed);
  const perOperation = operations > 0 ? `, ${((1e3 * fastest) / operations).toFixed(1)} us an operation` : '';
  console.log(
    `${isGraphed ? 'graphs    ' : 'one by one'}: ${fastest.toFixed(3)} ms (median ${median.toFixed(3)}), ` +
      `${operations} operations, ${enqueued} calls that enqueue${perOperation}`,
  );
}
console.log(`a copy of the tokens to the device: ${measureUpload().toFixed(3)} ms of it, five times`);
rmSync(directory, { recursive: true });
