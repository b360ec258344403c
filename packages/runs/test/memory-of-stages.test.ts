import { allocateParameters, initializeParameter } from '@mtl/autograd';
import { mostRoomForMasked } from '@mtl/data/internal';
import { memoryStatistics, resetPeakMemory, setNumThreads, Tensor, trimMemory } from '@mtl/kernels';
import {
  buildBertStages,
  buildGptStages,
  type LayerNormPlacement,
  type MaskedTokenBatch,
  type Recomputation,
  type TokenBatch,
} from '@mtl/models';
import type { Stage } from '@mtl/pipeline';
import { buildSchedule, oneStage, type PipelineSchedule, waitingTensors } from '@mtl/pipeline/schedules';
import { describe, expect, it } from 'vitest';

const [batchSize, sequenceLength, numMicroBatches] = [4, 256, 6];
const sizes = { numLayers: 8, hiddenSize: 64, ffnHiddenSize: 256, numAttentionHeads: 4 };

interface Case {
  /** Position of layer norms of a BERT. Default: the model is a GPT. */
  readonly bert?: LayerNormPlacement;
  readonly schedule: string;
  readonly numStages: number;
  readonly numChunks?: number;
  readonly dtype?: 'float32' | 'bfloat16';
  readonly hiddenDropout?: number;
  readonly vocabularySize?: number;
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
  ...(['pre', 'post'] as const).flatMap((bert): Case[] => [
    { bert, schedule: '1f1b', numStages: 1 },
    { bert, schedule: '1f1b', numStages: 1, dtype: 'bfloat16', hiddenDropout: 0 },
    { bert, schedule: '1f1b', numStages: 1, recomputation: full },
    // the logits of masked tokens are the peak
    { bert, schedule: '1f1b', numStages: 1, vocabularySize: 20_000 },
    { bert, schedule: 'zb-h1', numStages: 2, vocabularySize: 20_000, dtype: 'bfloat16' },
    { bert, schedule: 'gpipe', numStages: 2 },
    { bert, schedule: '1f1b', numStages: 4, hiddenDropout: 0 },
    { bert, schedule: 'interleaved', numStages: 2, numChunks: 2, dtype: 'bfloat16' },
    { bert, schedule: 'zb-h1', numStages: 4, dtype: 'bfloat16' },
    { bert, schedule: 'zb-h2', numStages: 2, hiddenDropout: 0 },
    { bert, schedule: 'zb-h1', numStages: 2, recomputation: { ...full, numLayers: 2 } },
    { bert, schedule: 'zb-h1', numStages: 2, recomputation: { ...full, method: 'block', numLayers: 2 } },
    { bert, schedule: 'zb-v', numStages: 2 },
  ]),
];

const maskProbability = 0.15;
const maskedRows = mostRoomForMasked({ batchSize, sequenceLength, probability: maskProbability });

const architecture = ({ hiddenDropout = 0.1, vocabularySize = 256 }: Case) => ({
  ...sizes,
  hiddenDropout,
  attentionDropout: 0,
  layerNormEpsilon: 1e-5,
  vocabularySize,
  makeVocabularySizeDivisibleBy: 128,
  maxPositionEmbeddings: sequenceLength,
  initMethodStd: 0.02,
});

const ids = Int32Array.from({ length: batchSize * sequenceLength }, (_, index) => (index * 7919) % 256);
const tokenBatch: TokenBatch = {
  batchSize,
  sequenceLength,
  tokens: ids,
  labels: ids,
  keyStart: undefined,
  lossMask: new Float32Array(ids.length).fill(1),
  positionIds: Int32Array.from(ids, (_, index) => Math.floor(index / batchSize)),
  sampleNumbers: Float64Array.from({ length: batchSize }, (_, index) => index),
};

/** Samples that fill their sequences. */
const maskedBatch: MaskedTokenBatch = {
  batchSize,
  sequenceLength,
  tokens: ids,
  tokenTypes: ids.map((id) => id % 2),
  lengths: new Int32Array(batchSize).fill(sequenceLength),
  maskedPositions: Int32Array.from({ length: maskedRows }, (_, index) => index),
  maskedLabels: ids.subarray(0, maskedRows),
  maskedWeights: new Float32Array(maskedRows).fill(1),
  numMasked: maskedRows,
  sentenceOrderLabels: new Int32Array(batchSize),
  sampleNumbers: tokenBatch.sampleNumbers,
};

interface RankOn {
  readonly rank: number;
  readonly device: 'cpu' | 'meta';
}

/** Returns the parts of the model on a rank. */
function buildPieces(each: Case, { placement }: PipelineSchedule, { rank, device }: RankOn) {
  const { dtype = 'float32', recomputation = { granularity: 'none' }, bert } = each;
  const perChunk = sizes.numLayers / placement.length;
  const layers = placement.map((_, chunk) => ({ start: chunk * perChunk, end: (chunk + 1) * perChunk }));
  const model = architecture(each);
  const options = {
    layers,
    placement,
    rank,
    recomputation,
    dtype,
    seed: 1,
    device,
  };
  if (bert === undefined) {
    const gpt = { ...model, geluKind: 'tanh', tieEmbeddings: true } as const;
    return buildGptStages({ ...options, model: gpt });
  }
  const own = { layerNormPlacement: bert, sentenceOrderHead: true, tokenTypeVocabularySize: 2 };
  return buildBertStages({ ...options, model: { ...model, ...own, geluKind: 'erf' } });
}

const lossFactors = { lm_loss: 1, sop_loss: 1 };

/**
 * Returns the allocator's peak over the passes of one rank, without parameters. Zeros replace the messages of
 * other ranks.
 */
function measureRank(each: Case, schedule: PipelineSchedule, on: RankOn): number {
  const { rank, device } = on;
  const { dtype = 'float32' } = each;
  trimMemory(device);
  const pieces = buildPieces(each, schedule, on);
  const { parameters } = pieces;
  const stages: ReadonlyMap<number, Stage<TokenBatch | MaskedTokenBatch>> = pieces.stages as never;
  const batch = each.bert === undefined ? tokenBatch : maskedBatch;
  const storage = allocateParameters(parameters, { device, dtype, mainGradients: true });
  for (const parameter of parameters) initializeParameter(parameter, parameter.data, 1);
  const zeros = (): Tensor => {
    const [stage] = stages.values();
    return Tensor.zeros({ shape: stage!.boundaryShape(batch), dtype, device });
  };
  const before = memoryStatistics(device).bytesInUse;
  resetPeakMemory(device);
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
          ? stage.forward({ microBatch, batch, lossFactors, input: received })
          : stage.backwardInput({ microBatch, outputGradient: received, weights: kind === 'B' });
      for (const tensor of [received, result]) tensor?.dispose();
      if (kind !== 'F') for (const loss of stage.takeLosses(microBatch)) loss.dispose();
    }
    for (const tensor of others) tensor.dispose();
  });
  const peak = memoryStatistics(device).peakBytes - before;
  storage.dispose();
  return peak;
}

describe('what passes keep and need in every schedule', () => {
  it.each(cases)('is what device meta counts: %o', (each) => {
    setNumThreads(1);
    const { schedule: name, numStages, numChunks } = each;
    const schedule =
      numStages === 1
        ? oneStage(numMicroBatches)
        : buildSchedule(name, { numStages, numMicroBatches, numChunks });
    const [measured, counted] = (['cpu', 'meta'] as const).map((device) =>
      schedule.actions.map((_, rank) => measureRank(each, schedule, { rank, device })),
    );
    expect(counted).toEqual(measured);
  });
});
