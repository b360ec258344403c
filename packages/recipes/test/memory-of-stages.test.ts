import { allocateParameters, initializeParameter } from '@mtl/autograd';
import { memoryStatistics, resetPeakMemory, setNumThreads, Tensor } from '@mtl/kernels';
import {
  buildGptStages,
  type GptModelConfiguration,
  paddedVocabularySize,
  type Recomputation,
  type TokenBatch,
} from '@mtl/models';
import { buildSchedule, type PipelineSchedule, waitingTensors } from '@mtl/pipeline/schedules';
import { describe, expect, it } from 'vitest';
import { type MemoryShape, predictStages } from '../src/index.js';

const [batchSize, sequenceLength, numMicroBatches] = [4, 256, 6];
const sizes = { numLayers: 8, hiddenSize: 64, ffnHiddenSize: 256, numAttentionHeads: 4 };

interface Case {
  readonly schedule: string;
  readonly numStages: number;
  readonly numChunks?: number;
  readonly dtype?: 'float32' | 'bfloat16';
  readonly hiddenDropout?: number;
  readonly recomputation?: Recomputation;
}

const full = { granularity: 'full', method: 'uniform', numLayers: 1 } as const;
const cases: readonly Case[] = [
  { schedule: 'gpipe', numStages: 2 },
  { schedule: '1f1b', numStages: 4 },
  { schedule: 'interleaved', numStages: 2, numChunks: 2 },
  { schedule: 'interleaved', numStages: 2, numChunks: 4 },
  { schedule: 'breadth-first', numStages: 2, numChunks: 2 },
  { schedule: 'zb-h1', numStages: 2 },
  { schedule: 'zb-h1', numStages: 4, dtype: 'bfloat16' },
  { schedule: 'zb-h2', numStages: 4 },
  { schedule: 'zb-h2', numStages: 2, hiddenDropout: 0 },
  { schedule: 'zb-h2', numStages: 2, recomputation: full },
  { schedule: 'zb-h1', numStages: 2, recomputation: { ...full, numLayers: 2 } },
  { schedule: 'zb-h1', numStages: 2, recomputation: { ...full, method: 'block', numLayers: 2 } },
  { schedule: 'zb-v', numStages: 2 },
  { schedule: 'zb-v', numStages: 2, recomputation: full },
];

function modelOf({ hiddenDropout = 0.1 }: Case): GptModelConfiguration {
  return {
    ...{ ...sizes, hiddenDropout, attentionDropout: 0, layerNormEpsilon: 1e-5, geluKind: 'tanh' },
    ...{ vocabularySize: 256, makeVocabularySizeDivisibleBy: 128, maxPositionEmbeddings: sequenceLength },
    ...{ initMethodStd: 0.02, tieEmbeddings: true },
  };
}

function shapeOf(each: Case, schedule: PipelineSchedule): MemoryShape {
  const { dtype = 'float32', recomputation = { granularity: 'none' } } = each;
  const model = modelOf(each);
  const numChunks = schedule.placement.length;
  return {
    ...{ ...sizes, sequenceLength, recomputation, microBatchSize: batchSize },
    ...{ vocabSize: paddedVocabularySize(model), maxPositionEmbeddings: sequenceLength, tieEmbeddings: true },
    ...{ bytesPerElement: dtype === 'float32' ? 4 : 2, hiddenDropout: model.hiddenDropout > 0 },
    ...{ tensorParallelSize: 1, sequenceParallel: false, optimizerShards: 1 },
    pipeline: { schedule, numLayers: new Array<number>(numChunks).fill(sizes.numLayers / numChunks) },
  };
}

const ids = Int32Array.from({ length: batchSize * sequenceLength }, (_, index) => (index * 7919) % 256);
const batch: TokenBatch = {
  ...{ batchSize, sequenceLength, tokens: ids, labels: ids, keyStart: undefined },
  lossMask: new Float32Array(ids.length).fill(1),
  positionIds: Int32Array.from(ids, (_, index) => index % sequenceLength),
  sampleNumbers: Float64Array.from({ length: batchSize }, (_, index) => index),
};

/** The allocator's peak over the passes of one rank, parameters left out: zeros stand for what other ranks would send. */
function measureRank(each: Case, schedule: PipelineSchedule, rank: number): number {
  const { dtype = 'float32', recomputation = { granularity: 'none' } } = each;
  const { placement } = schedule;
  const perChunk = sizes.numLayers / placement.length;
  const layers = placement.map((_, chunk) => ({ start: chunk * perChunk, end: (chunk + 1) * perChunk }));
  const { stages, parameters } = buildGptStages({
    ...{ model: modelOf(each), layers, placement, rank, recomputation },
    ...{ device: 'cpu', dtype, seed: 1 },
  });
  const storage = allocateParameters(parameters, { device: 'cpu', dtype, mainGradients: true });
  for (const parameter of parameters) initializeParameter(parameter, parameter.data, 1);
  const zeros = (): Tensor => {
    const [stage] = stages.values();
    return Tensor.zeros({ shape: stage!.boundaryShape(batch), dtype, device: 'cpu' });
  };
  const before = memoryStatistics('cpu').bytesInUse;
  resetPeakMemory('cpu');
  const waiting = waitingTensors(schedule)[rank]!;
  schedule.actions[rank]!.forEach(({ kind, chunk, microBatch }, index) => {
    const stage = stages.get(chunk)!;
    const others = Array.from({ length: waiting[index]! }, zeros);
    if (kind === 'W') stage.backwardWeight({ microBatch });
    else {
      const isEnd = kind === 'F' ? stage.isFirst : stage.isLast;
      const received = isEnd ? undefined : zeros();
      const result =
        kind === 'F'
          ? stage.forward({ microBatch, batch, lossFactor: 1, input: received })
          : stage.backwardInput({ microBatch, outputGradient: received, weights: kind === 'B' });
      for (const tensor of [received, result]) tensor?.dispose();
      if (kind !== 'F' && stage.isLast) stage.takeLoss(microBatch).dispose();
    }
    for (const tensor of others) tensor.dispose();
  });
  const peak = memoryStatistics('cpu').peakBytes - before;
  storage.dispose();
  return peak;
}

describe('what passes keep and need in every schedule', () => {
  it.each(cases)('is what predictStages says: %o', (each) => {
    setNumThreads(1);
    const { schedule: name, numStages, numChunks } = each;
    const schedule = buildSchedule(name, { numStages, numMicroBatches, numChunks });
    const ratios = predictStages(shapeOf(each, schedule)).map(({ activations, temporary }, rank) => {
      return measureRank(each, schedule, rank) / (activations + temporary);
    });
    for (const ratio of ratios) {
      // the allocator rounds blocks up, and matrix products take 0.6 MB of scratch memory, whatever their size
      expect(Math.abs(ratio - 1), ratios.map((one) => one.toFixed(3)).join(' ')).toBeLessThan(0.05);
    }
  });
});
