#!/usr/bin/env node
/**
 * Times the training step of a preset on random tokens, as common benchmarks do. Prints a JSON line with
 * tokens/s (median step), losses, peak memory, the fraction of a step outside native kernels, and the time
 * for which steps waited for data.
 *   npm run dev -- training-step --preset char-10m --dtype float32 --threads 2 --iters 10 --warmup 3
 *     [--micro-batch N] [--states float32|bfloat16|float16] [--remainders]
 *     [--gradients float32|bfloat16] [--device cuda] [--cuda-graphs] [--matmul-library own|oneDNN]
 * On a GPU, also prints for how many milliseconds of a step the host does not wait for the GPU's results. If
 * this time equals the time of the step, the GPU waits for the host. Under `mtl run`, the ranks share the
 * same batch: --tp N, --sequence-parallel, --cp N, --cp-comm-type p2p|all_gather|a2a, --sharding
 * no_shard|optim|optim_grads|optim_grads_params, and in a pipeline --pp N, --schedule NAME, --micro-batches
 * N. Rank 0 also prints the time for which a step waits for communication, and the communicated
 * bytes.
 */
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { contextPartition } from '@mtl/context-parallel';
import {
  hostInformation,
  memoryStatistics,
  operationStatistics,
  setMatmulLibrary,
  setNumThreads,
  synchronize,
  Tensor,
} from '@mtl/kernels';
import {
  buildGptStages,
  gptEmbeddingAndHeadCost,
  gptMatmuls,
  numLossTokens,
  numParameters,
  paddedVocabularySize,
  partitionLayers,
} from '@mtl/models';
import { AdamwOptimizer, createStores, LossScaler, NumMicroBatches, storeOfStrategy } from '@mtl/optimizer';
import { GraphedStage, Pipeline } from '@mtl/pipeline';
import { buildSchedule, oneStage } from '@mtl/pipeline/schedules';
import { TrainingProcesses } from '@mtl/runs';
import { joinProcesses } from '@mtl/runs/internal';
import { modelFlops, Trainer } from '@mtl/trainer';
import { benchmarkPresets, modelOfPreset } from './benchmark-presets.mjs';

const { values } = parseArgs({
  options: {
    preset: { type: 'string', default: 'char-10m' },
    dtype: { type: 'string', default: 'float32' },
    device: { type: 'string', default: 'cpu' },
    threads: { type: 'string', default: '2' },
    iters: { type: 'string', default: '10' },
    warmup: { type: 'string', default: '3' },
    'micro-batch': { type: 'string' },
    tp: { type: 'string', default: '1' },
    cp: { type: 'string', default: '1' },
    'cp-comm-type': { type: 'string', default: 'p2p' },
    pp: { type: 'string', default: '1' },
    schedule: { type: 'string', default: '1f1b' },
    /** The number of micro-batches of a step on each data-parallel rank. */
    'micro-batches': { type: 'string', default: '1' },
    'sequence-parallel': { type: 'boolean', default: false },
    /** Megatron-LM's name for a store of parameters. */
    sharding: { type: 'string', default: 'no_shard' },
    /** The dtype of both moments of AdamW. */
    states: { type: 'string', default: 'float32' },
    /** The dtype of main gradients. */
    gradients: { type: 'string', default: 'float32' },
    /** Keeps master weights as remainders. */
    remainders: { type: 'boolean', default: false },
    /** works only on a GPU, and only if passes contain no communication, so not with --tp */
    'cuda-graphs': { type: 'boolean', default: false },
    'matmul-library': { type: 'string', default: 'faster' },
    /** prints the time of each operation to standard error */
    profile: { type: 'boolean', default: false },
  },
});
const model = modelOfPreset(values.preset);
const { numLayers, hiddenSize, maxPositionEmbeddings: sequenceLength, vocabularySize } = model;
const usualBatch = benchmarkPresets[values.preset].at(-1);
const { dtype, device } = values;
const { world } = await joinProcesses({ variables: process.env, device, onMessage: console.error });
const tensorModelParallelSize = Number(values.tp);
const pipelineModelParallelSize = Number(values.pp);
const contextParallelSize = Number(values.cp);
const numMicroBatches = Number(values['micro-batches']);
const dataParallelSize =
  (world?.size ?? 1) / tensorModelParallelSize / contextParallelSize / pipelineModelParallelSize;
const processes = new TrainingProcesses({
  world,
  parallel: { tensorModelParallelSize, contextParallelSize, pipelineModelParallelSize, dataParallelSize },
});
const { groups, coordinates } = processes;
const microBatchSize = Number(values['micro-batch'] ?? usualBatch) / dataParallelSize;
const globalBatchSize = microBatchSize * dataParallelSize * numMicroBatches;
const [iterations, warmup] = [Number(values.iters), Number(values.warmup)];
/**
 * Returns one of eight random micro-batches, which are used in turn. The multiplicative hash spreads
 * consecutive indices over the vocabulary.
 */
function randomBatch(number) {
  const size = microBatchSize * sequenceLength;
  const token = (index) => Math.imul((index + number * size + 1) >>> 0, 2654435761) >>> 8;
  return {
    batchSize: microBatchSize,
    sequenceLength,
    tokens: Int32Array.from({ length: size }, (_, index) => token(index) % vocabularySize),
    labels: Int32Array.from({ length: size }, (_, index) => token(index + 1) % vocabularySize),
    lossMask: new Float32Array(size).fill(1),
    positionIds: Int32Array.from({ length: size }, (_, index) => Math.floor(index / microBatchSize)),
    keyStart: undefined,
    sampleNumbers: Float64Array.from({ length: microBatchSize }, (_, b) => number * microBatchSize + b),
  };
}
const prepared = Array.from({ length: 8 }, (_, number) =>
  randomBatch(number * dataParallelSize + coordinates.dp),
);
async function* batches() {
  for (let step = 0; ; step++) yield prepared[step % prepared.length];
}

setNumThreads(Number(values.threads), { pin: world === undefined });
setMatmulLibrary(values['matmul-library']);
const schedule = (count) =>
  pipelineModelParallelSize === 1
    ? oneStage(count)
    : buildSchedule(values.schedule, { numStages: pipelineModelParallelSize, numMicroBatches: count });
const { placement } = schedule(numMicroBatches);
const layers = partitionLayers({
  numLayers,
  numChunks: placement.length,
  layout: 'balanced',
  work: gptEmbeddingAndHeadCost(model, sequenceLength),
});
const { stages, parameters, units } = buildGptStages({
  model,
  device,
  dtype,
  seed: 1234,
  layers,
  placement,
  rank: coordinates.pp,
  sequence: groups.cp && contextPartition({ group: groups.cp, communication: [values['cp-comm-type']] }),
  tensorParallel: groups.tp && { group: groups.tp, sequenceParallel: values['sequence-parallel'] },
});
if (values['cuda-graphs'] && tensorModelParallelSize * contextParallelSize > 1) {
  console.error(
    'error[MTL_CUDA_GRAPHS]: --cuda-graphs with --tp or --cp: passes contain communication, which cannot be recorded',
  );
  process.exit(2);
}
const graphed = (stage) =>
  new GraphedStage({
    stage,
    device,
    onMessage: console.error,
    lastRunsEagerly: dataParallelSize > 1,
    beforePasses: () => {
      for (const parameter of parameters) void parameter.data;
    },
  });
const pipeline = new Pipeline({
  stages: values['cuda-graphs']
    ? new Map([...stages].map(([chunk, stage]) => [chunk, graphed(stage)]))
    : stages,
  schedule,
  dtype,
  device,
  group: groups.pp,
  replicas: values['sequence-parallel'] ? undefined : groups.tp,
});
const stores = createStores(parameters, {
  kind: storeOfStrategy(values.sharding),
  device,
  dtype,
  groups,
  chunks: new Map([...stages].map(([chunk, stage]) => [chunk, stage.parameters])),
  units,
  storesRemainders: values.remainders,
  gradientDtype: values.gradients,
  seed: 1234,
});
const optimizer = new AdamwOptimizer(stores, {
  beta1: 0.9,
  beta2: 0.95,
  expAvgDtype: values.states,
  expAvgSqDtype: values.states,
  epsilon: 1e-8,
  weightDecay: 0.01,
  clipGrad: 1,
  groups,
  overlapGradientReduction: true,
  overlapParameterGather: true,
});
const flopsPerSample = modelFlops({
  batchSize: 1,
  sequenceLength,
  headWeights: paddedVocabularySize(model) * hiddenSize,
  ...gptMatmuls(model),
});
const trainer = new Trainer({
  losses: [{ name: 'lm_loss', per: 'token', count: numLossTokens }],
  pipeline,
  optimizer,
  sequenceLength,
  flopsPerSample,
  learningRate: () => 1.5e-4,
  lossScaler: new LossScaler({ kind: 'constant', scale: 1 }),
  microBatches: new NumMicroBatches({ globalBatchSize, microBatchSize, dataParallelSize }),
  device,
  batches: batches(),
  trainIterations: iterations + warmup,
});

const kernelSeconds = () => operationStatistics().reduce((sum, { seconds }) => sum + seconds, 0);
const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
/** Returns how many seconds this rank has waited for other ranks, and how many bytes it has sent to them. */
function communication() {
  const all = new Set(Object.values(groups));
  const counts = [...all].flatMap((group) => Object.values(group.statistics()));
  return {
    seconds: counts.reduce((sum, { waitedSeconds }) => sum + waitedSeconds, 0),
    bytes: counts.reduce((sum, { sentBytes }) => sum + sentBytes, 0),
  };
}
/** How long this process has waited for results from a GPU, in milliseconds. Only reading a result waits. */
let readMs = 0;
if (device === 'cuda') {
  const read = Tensor.prototype.read;
  Tensor.prototype.read = function (...args) {
    const start = performance.now();
    const result = read.apply(this, args);
    readMs += performance.now() - start;
    return result;
  };
}
const [times, losses, overheads, waits, hostTimes] = [[], [], [], [], []];
let before = communication();
let kernels = kernelSeconds();
synchronize(device);
let stepStart = performance.now();
for await (const { iteration, stepMs: hostStepMs, loss } of trainer) {
  const returned = performance.now();
  synchronize(device);
  const finished = performance.now();
  readMs += finished - returned;
  // when the trainer's step ends, a GPU is still computing the update; the PyTorch program also waits for the
  // update
  const stepMs = device === 'cuda' ? finished - stepStart : hostStepMs;
  const now = kernelSeconds();
  losses.push(Number(loss.toFixed(5)));
  if (iteration > warmup) {
    times.push(stepMs);
    hostTimes.push(stepMs - readMs);
    overheads.push(1 - ((now - kernels) * 1000) / stepMs);
    waits.push((communication().seconds - before.seconds) * 1000);
  }
  before = communication();
  kernels = now;
  readMs = 0;
  stepStart = performance.now();
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
const report = JSON.stringify({
  program: 'mtl',
  preset: values.preset,
  dtype,
  device,
  processor: cpus()[0].model.trim(),
  instruction_set: hostInformation().instructionSet,
  matmul_library: values['matmul-library'],
  threads: Number(values.threads),
  micro_batch: microBatchSize,
  params: numParameters(model),
  vocabulary: vocabularySize,
  step_ms: Number(stepMs.toFixed(3)),
  tokens_per_s: Number(((globalBatchSize * sequenceLength * 1000) / stepMs).toFixed(1)),
  model_tflops: Number(((flopsPerSample * globalBatchSize) / stepMs / 1e9).toFixed(4)),
  // on a GPU, the bytes that the allocator has allocated; on the host, the pages of the process, as in the
  // PyTorch program
  peak_bytes: device === 'cuda' ? memoryStatistics(device).peakBytes : process.resourceUsage().maxRSS * 1024,
  allocator_peak_bytes: memoryStatistics(device).peakBytes,
  ranks: world?.size ?? 1,
  tp: tensorModelParallelSize,
  pp: pipelineModelParallelSize,
  layers: layers.map(({ start, end }) => end - start),
  waited_ms: Number(median(waits).toFixed(3)),
  sent_bytes: before.bytes,
  host_ms: device === 'cuda' ? Number(median(hostTimes).toFixed(3)) : undefined,
  outside_kernels: Number(median(overheads).toFixed(5)),
  data_wait_ms: Number(trainer.dataWaitMs.toFixed(3)),
  losses,
});
if (processes.isFirst) console.log(report);
world?.close();
