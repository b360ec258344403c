import { GptStage, numLossTokens, type StageBatch } from '@mtl/models';
import { AdamwOptimizer, LossScaler, NumMicroBatches, ParameterBuffers } from '@mtl/optimizer';
import { GraphedStage, Pipeline, type Stage } from '@mtl/pipeline';
import { oneStage } from '@mtl/pipeline/schedules';
import { type EmulationCounts, emulationCounts, hasEmulationCounts } from '@mtl/tooling/emulation-counts';
import { Trainer } from '@mtl/trainer';

const sequenceLength = 16;
const microBatchSize = 2;
const vocabularySize = 50;

const model = {
  ...{ numLayers: 2, hiddenSize: 32, ffnHiddenSize: 128, numAttentionHeads: 2 },
  ...{ vocabularySize, makeVocabularySizeDivisibleBy: 16, maxPositionEmbeddings: sequenceLength },
  ...{ hiddenDropout: 0.1, attentionDropout: 0.1, layerNormEpsilon: 1e-5, geluKind: 'tanh' as const },
  ...{ initMethodStd: 0.02, tieEmbeddings: true },
};

export interface TinyTrainingOptions {
  readonly device: 'cpu' | 'cuda';
  readonly numMicroBatches: number;
  readonly dtype?: 'float32' | 'float16' | 'bfloat16';
  readonly steps?: number;
  /** Records passes; told what a `GraphedStage` says. */
  readonly onGraphMessage?: ((text: string) => void) | undefined;
  /** Positions of a micro-batch; default: the model's, always. */
  readonly lengthOf?: (microBatch: number) => number;
  /** In the place of the model's stage. */
  readonly wrap?: (stage: GptStage) => Stage<StageBatch>;
  /** Evaluates so many micro-batches after every step. */
  readonly numEvaluated?: number;
}

export interface TinyTraining {
  readonly losses: readonly number[];
  readonly norms: readonly number[];
  readonly evaluated: readonly number[];
  /** What each step asked of an emulated device that counts; else empty. */
  readonly counts: readonly EmulationCounts[];
}

function batchOf(number: number, length: number): StageBatch {
  const size = microBatchSize * length;
  const token = (index: number): number => (number * 7 + index * 3) % vocabularySize;
  return {
    batchSize: microBatchSize,
    sequenceLength: length,
    tokens: Int32Array.from({ length: size }, (_, index) => token(index)),
    labels: Int32Array.from({ length: size }, (_, index) => token(index + 1)),
    // a few tokens that do not count, others in each micro-batch
    lossMask: Float32Array.from({ length: size }, (_, index) => ((index + number) % 11 === 0 ? 0 : 1)),
    positionIds: Int32Array.from({ length: size }, (_, index) => index % length),
    sampleNumbers: Float64Array.from({ length: microBatchSize }, (_, b) => number * microBatchSize + b),
    keyStart: undefined,
  };
}

async function* batchesOf(lengthOf: (microBatch: number) => number): AsyncGenerator<StageBatch> {
  for (let number = 0; ; number++) yield batchOf(number, lengthOf(number));
}

/** Trains a tiny GPT with dropout, and counts where the device is an emulated one. */
export async function tinyTraining(options: TinyTrainingOptions): Promise<TinyTraining> {
  const { device, numMicroBatches, dtype = 'float32', steps = 4, onGraphMessage, numEvaluated = 0 } = options;
  const { lengthOf = () => sequenceLength, wrap = (stage: GptStage) => stage } = options;
  const gpt = new GptStage({ model, device, dtype, seed: 3 });
  const buffers = new ParameterBuffers(gpt.parameters, { device, dtype });
  buffers.initialize(3);
  const optimizer = new AdamwOptimizer(buffers, {
    ...{ beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0.1, clipGradient: 1 },
  });
  const graphed = onGraphMessage && new GraphedStage({ stage: wrap(gpt), device, onMessage: onGraphMessage });
  const stage = graphed ?? wrap(gpt);
  const trainer = new Trainer<StageBatch>({
    pipeline: new Pipeline({ stages: new Map([[0, stage]]), schedule: oneStage, dtype, device }),
    ...{ optimizer, device, sequenceLength, flopsPerSample: 1, trainIterations: steps },
    losses: [{ name: 'lm_loss', per: 'token', count: numLossTokens }],
    learningRate: () => 0.01,
    lossScaler: new LossScaler(
      dtype === 'float16' ? { kind: 'dynamic', initialScale: 256 } : { kind: 'constant' },
    ),
    microBatches: new NumMicroBatches({
      ...{ globalBatchSize: microBatchSize * numMicroBatches, microBatchSize, dataParallelSize: 1 },
    }),
    batches: batchesOf(lengthOf),
  });
  const [losses, norms, evaluated, counts]: [number[], number[], number[], EmulationCounts[]] = [
    [],
    [],
    [],
    [],
  ];
  let before = device === 'cuda' && hasEmulationCounts ? emulationCounts() : undefined;
  for await (const { lmLoss, gradNorm } of trainer) {
    losses.push(lmLoss);
    norms.push(gradNorm);
    if (before !== undefined) counts.push(difference(emulationCounts(), before));
    if (numEvaluated > 0) {
      const { loss } = await trainer.evaluate(batchesOf(lengthOf), numEvaluated);
      evaluated.push(loss);
    }
    if (before !== undefined) before = emulationCounts();
  }
  graphed?.dispose();
  optimizer.dispose();
  buffers.dispose();
  return { losses, norms, evaluated, counts };
}

function difference(now: EmulationCounts, before: EmulationCounts): EmulationCounts {
  const names = Object.keys(now) as (keyof EmulationCounts)[];
  return Object.fromEntries(
    names.map((name) => [name, now[name] - before[name]]),
  ) as unknown as EmulationCounts;
}
