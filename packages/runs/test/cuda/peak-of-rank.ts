import { allocateParameters } from '@mtl/autograd';
import { type Device, memoryStatistics, resetPeakMemory, Tensor, trimMemory } from '@mtl/kernels';
import { buildGptStages, type Recomputation, type TokenBatch } from '@mtl/models';
import { GraphedStage, type Stage } from '@mtl/pipeline';
import { type PipelineSchedule, waitingTensors } from '@mtl/pipeline/schedules';

const numSteps = 3;
export const sizes = {
  numLayers: 8,
  hiddenSize: 2048,
  ffnHiddenSize: 8192,
  numAttentionHeads: 16,
  vocabularySize: 50_304,
  maxPositionEmbeddings: 2048,
};
export const [batchSize, sequenceLength] = [4, 2048];

export interface PeakOfRankOptions {
  readonly schedule: PipelineSchedule;
  readonly rank: number;
  readonly recomputation: Recomputation;
  readonly hiddenDropout: number;
  readonly dtype: 'float32' | 'bfloat16';
  readonly isGraphed: boolean;
  readonly device: Device;
}

/**
 * Returns the device's peak over steps of one rank, without parameters. Empty tensors replace the messages of
 * other ranks. Without `isGraphed` passes run one by one.
 */
export function peakOfRank(options: PeakOfRankOptions): {
  readonly bytes: number;
  readonly said: readonly string[];
} {
  const { schedule, rank, dtype, recomputation, hiddenDropout, device } = options;
  const { placement } = schedule;
  const perChunk = sizes.numLayers / placement.length;
  const { stages, parameters } = buildGptStages({
    model: {
      ...sizes,
      hiddenDropout,
      attentionDropout: 0,
      layerNormEpsilon: 1e-5,
      geluKind: 'tanh',
      makeVocabularySizeDivisibleBy: 128,
      initMethodStd: 0.02,
      tieEmbeddings: true,
    },
    placement,
    rank,
    recomputation,
    dtype,
    device,
    seed: 1,
    layers: placement.map((_, chunk) => ({ start: chunk * perChunk, end: (chunk + 1) * perChunk })),
  });
  trimMemory(device);
  const storage = allocateParameters(parameters, { device, dtype, mainGradients: true });
  const said: string[] = [];
  const graphed: GraphedStage<TokenBatch>[] = [];
  const wrapStage = (stage: Stage<TokenBatch>): Stage<TokenBatch> => {
    if (!options.isGraphed) return stage;
    graphed.push(new GraphedStage({ stage, device, onMessage: (text) => said.push(text) }));
    return graphed.at(-1)!;
  };
  const pieces = new Map([...stages].map(([chunk, stage]) => [chunk, wrapStage(stage)]));
  const empty = (): Tensor =>
    Tensor.empty({ shape: [...pieces.values()][0]!.boundaryShape(batch), dtype, device });
  const before = memoryStatistics(device).bytesInUse;
  resetPeakMemory(device);
  const waiting = waitingTensors(schedule)[rank]!;
  for (let step = 0; step < numSteps; step++) {
    schedule.actions[rank]!.forEach(({ kind, chunk, microBatch }, index) => {
      const stage = pieces.get(chunk)!;
      const others = Array.from({ length: waiting[index]! }, empty);
      if (kind === 'W') stage.backwardWeight({ microBatch });
      else {
        const received = (kind === 'F' ? stage.isFirst : stage.isLast) ? undefined : empty();
        const result =
          kind === 'F'
            ? stage.forward({ microBatch, batch, lossFactors: { lm_loss: 1 }, input: received })
            : stage.backwardInput({ microBatch, outputGradient: received, weights: kind === 'B' });
        for (const tensor of [received, result]) tensor?.dispose();
        if (kind !== 'F') for (const loss of stage.takeLosses(microBatch)) loss.dispose();
      }
      for (const tensor of others) tensor.dispose();
    });
  }
  const bytes = memoryStatistics(device).peakBytes - before;
  for (const stage of graphed) stage.dispose();
  storage.dispose();
  return { bytes, said };
}

const ids = Int32Array.from({ length: batchSize * sequenceLength }, (_, index) => (index * 7919) % 256);
const batch: TokenBatch = {
  batchSize,
  sequenceLength,
  tokens: ids,
  labels: ids,
  keyStart: undefined,
  lossMask: new Float32Array(ids.length).fill(1),
  positionIds: Int32Array.from(ids, (_, index) => Math.floor(index / batchSize)),
  sampleNumbers: Float64Array.from({ length: batchSize }, (_, index) => index),
};
