import type { ProcessGroup } from '@mtl/comm';
import { type ContextCommunication, contextPartition } from '@mtl/context-parallel';
import { setNumThreads, Tensor } from '@mtl/kernels';
import { type GptModelConfiguration, GptStage, gptBlock, numLossTokens, type TokenBatch } from '@mtl/models';
import { AdamwOptimizer, type CreateStoresOptions, createStores, type ParallelGroups } from '@mtl/optimizer';
import { routedExperts, spreadExpertsOver } from './routed-experts.js';

const [numSamples, sequenceLength, numSteps] = [4, 8, 3];

const model: GptModelConfiguration = {
  numLayers: 2,
  hiddenSize: 32,
  ffnHiddenSize: 64,
  numAttentionHeads: 4,
  maxPositionEmbeddings: sequenceLength,
  vocabularySize: 90,
  makeVocabularySizeDivisibleBy: 8,
  tieEmbeddings: true,
  layerNormEpsilon: 1e-5,
  geluKind: 'tanh',
  hiddenDropout: 0.1,
  attentionDropout: 0.1,
  // large, so that every path carries a gradient that can be seen
  initMethodStd: 0.2,
};

export interface TrainWithSeams {
  readonly groups: ParallelGroups;
  readonly kind: CreateStoresOptions['kind'];
  /** True to run the halves of backward one after the other, and to recompute layers. */
  readonly splitAndRecomputed?: boolean | undefined;
  /** The way in which ranks that share sequences communicate. Default p2p. */
  readonly communication?: ContextCommunication | undefined;
}

/** Returns a sample. Its values depend only on the global sample number, so that any rank can make it. */
function makeSample(sample: number): TokenBatch {
  const token = (index: number): number => (index * 37 + sample * 11 + (index % 3)) % model.vocabularySize;
  return {
    batchSize: 1,
    sequenceLength,
    tokens: Int32Array.from({ length: sequenceLength }, (_, index) => token(index)),
    labels: Int32Array.from({ length: sequenceLength }, (_, index) => token(index + 1)),
    // the number of tokens that count differs between samples; one sample has a single such token
    lossMask: Float32Array.from({ length: sequenceLength }, (_, index) =>
      sample === 2 ? Number(index === 6) : Number(index % 5 !== sample),
    ),
    positionIds: Int32Array.from({ length: sequenceLength }, (_, index) => index),
    sampleNumbers: Float64Array.of(sample),
    keyStart: undefined,
  };
}

export interface SeamsCurve {
  readonly losses: readonly number[];
  readonly norms: readonly number[];
  /** Values of each parameter on this rank; `first` is its slice of the first dimension. */
  readonly weights: ReadonlyArray<{
    readonly name: string;
    readonly first: { readonly start: number; readonly end: number };
    readonly values: Float32Array;
  }>;
}

/**
 * Trains a GPT whose second layer has routed experts, with dropout, by AdamW: its samples over dp, its
 * positions over cp in two chunks a rank, its experts over ep, its layers over tp with sequence parallelism.
 */
export function trainWithSeams({
  groups,
  kind,
  splitAndRecomputed = false,
  communication = 'p2p',
}: TrainWithSeams): SeamsCurve {
  setNumThreads(1);
  const { tp, cp, dp, ep } = groups;
  spreadExpertsOver(ep);
  const standard = gptBlock(model);
  const stage = new GptStage({
    model,
    block: (layer) => (layer === 1 ? { ...standard, feedForward: routedExperts } : standard),
    sequence: cp && contextPartition({ group: cp, communication: [communication] }),
    tensorParallel: tp && { group: tp, sequenceParallel: true },
    ...(splitAndRecomputed && {
      recomputation: { granularity: 'full', method: 'uniform', numLayers: 1 },
    }),
    device: 'cpu',
    dtype: 'float32',
    seed: 5,
  });
  const stores = createStores(stage.parameters, {
    kind,
    device: 'cpu',
    dtype: 'float32',
    groups,
    units: stage.units,
    bucketBytes: 4096,
    seed: 5,
  });
  const optimizer = new AdamwOptimizer(stores, {
    beta1: 0.9,
    beta2: 0.95,
    epsilon: 1e-8,
    weightDecay: 0.1,
    clipGrad: 1,
    groups,
    overlapGradientReduction: true,
    overlapParameterGather: true,
  });
  const batches = Array.from({ length: numSamples }, (_, sample) => makeSample(sample));
  const lossFactors = { lm_loss: 1 / batches.map(numLossTokens).reduce((total, count) => total + count) };
  const own = batches.filter((_, sample) => sample % (dp?.size ?? 1) === (dp?.rank ?? 0));
  const norms: number[] = [];
  const losses = Array.from({ length: numSteps }, () => {
    let loss = 0;
    own.forEach((batch, microBatch) => {
      stage.forward({ microBatch, batch, lossFactors });
      if (microBatch === own.length - 1) optimizer.expectLastBackward();
      stage.backwardInput({ microBatch, weights: !splitAndRecomputed });
      if (splitAndRecomputed) stage.backwardWeight({ microBatch });
      for (const { losses: each, weights, dispose } of stage.takeLosses(microBatch)) {
        const factors = weights.toArray();
        loss += each.toArray().reduce((total, value, index) => total + value * factors[index]!, 0);
        dispose();
      }
    });
    norms.push(optimizer.step({ learningRate: 0.02 }).gradientNorm);
    // ranks of one tensor-parallel group have the same loss
    return overAll(loss / (tp?.size ?? 1), groups.world);
  });
  const weights = stage.units.flatMap((unit) => {
    unit.acquire();
    try {
      return unit.parameters.map(({ name, slices, data }) => ({
        name,
        first: slices[0]!,
        values: data.read<'float32'>(),
      }));
    } finally {
      unit.release();
    }
  });
  optimizer.dispose();
  stage.dispose();
  return { losses, norms, weights };
}

function overAll(value: number, world: ProcessGroup | undefined): number {
  using total = Tensor.from([value], { shape: [1], dtype: 'float64' });
  world?.allReduce(total).wait();
  return total.item();
}
