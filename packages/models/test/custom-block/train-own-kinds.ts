import { allocateParameters, initializeParameter } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { setNumThreads, Tensor } from '@mtl/kernels';
import { Pipeline } from '@mtl/pipeline';
import { interleaved, oneForwardOneBackward, oneStage } from '@mtl/pipeline/schedules';
import { buildGptStages, gptBlock, numLossTokens } from '../../src/index.js';
import { smallBatch, smallGpt } from '../tensor-parallel/small-gpt.js';
import { activationLoss, ownFeedForward, ownNorm } from './own-kinds.js';

const numLayers = 4;
const numSteps = 6;
const seed = 5;

export interface TrainOwnKinds {
  readonly groups: { readonly tp?: ProcessGroup; readonly pp?: ProcessGroup };
  readonly sequenceParallel: boolean;
  readonly recompute: boolean;
  /**
   * Layers whose activations have a loss, of weight 0.5. Every layer is then a pipeline stage, so these can
   * be in the middle.
   */
  readonly lossLayers?: readonly number[];
  /**
   * Layers with GPT-2's norm, feed-forward network and attention instead of the kinds of own-kinds.ts.
   * Default: none.
   */
  readonly standardLayers?: readonly number[];
}

export interface OwnKindsResult {
  /** The loss of each step, on ranks of the last pipeline stage. */
  readonly losses: readonly number[];
  /** The mean of the loss of activations in each step, on all ranks. */
  readonly activationLosses: readonly number[];
  readonly parameterNames: readonly string[];
}

/** Trains a GPT of these kinds by gradient descent: four micro-batches a step. */
export function trainOwnKinds(options: TrainOwnKinds): OwnKindsResult {
  setNumThreads(1);
  const { groups, sequenceParallel, recompute, lossLayers = [], standardLayers = [] } = options;
  const { tp, pp } = groups;
  const numStages = pp?.size ?? 1;
  const schedule = (numMicroBatches: number) => {
    if (numStages === 1) return oneStage(numMicroBatches);
    if (lossLayers.length === 0) return oneForwardOneBackward({ numStages, numMicroBatches });
    return interleaved({ numStages, numMicroBatches, numChunks: numLayers / numStages });
  };
  const { placement } = schedule(numStages);
  const model = { ...smallGpt, numLayers };
  const standard = gptBlock(model);
  const own = {
    norm: ownNorm,
    feedForward: { ...ownFeedForward, lossLayers },
    // heads that are together larger than the hidden size, without biases
    attention: { ...standard.attention, headSize: 16, bias: false },
  };
  const { stages, parameters } = buildGptStages({
    model,
    block: (layer) => (standardLayers.includes(layer) ? standard : { ...standard, ...own }),
    device: 'cpu',
    dtype: 'float32',
    seed,
    layers: placement.map((_, chunk) => ({
      start: (chunk * numLayers) / placement.length,
      end: ((chunk + 1) * numLayers) / placement.length,
    })),
    placement,
    rank: pp?.rank ?? 0,
    tensorParallel: tp && { group: tp, sequenceParallel },
    recomputation: recompute
      ? { granularity: 'full', method: 'uniform', numLayers: 1 }
      : { granularity: 'none' },
  });
  const storage = allocateParameters(parameters, { device: 'cpu', dtype: 'float32', mainGradients: true });
  for (const parameter of parameters) initializeParameter(parameter, parameter.data, seed);
  const pipeline = new Pipeline({
    stages,
    schedule,
    group: pp,
    replicas: sequenceParallel ? undefined : tp,
    dtype: 'float32',
    device: 'cpu',
  });
  const batches = [0, 2, 4, 6].map((first) => ({
    ...smallBatch(),
    sampleNumbers: Float64Array.of(first, first + 1),
  }));
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  const numTokens = sum(batches.map(({ tokens }) => tokens.length));
  const lossFactors = {
    lm_loss: 1 / sum(batches.map(numLossTokens)),
    [activationLoss]: 0.5 / numTokens,
  };
  const activationLosses: number[] = [];
  const losses = Array.from({ length: numSteps }, () => {
    for (const { mainGradient } of parameters) mainGradient.zero();
    const totals = new Map([
      ['lm_loss', 0],
      [activationLoss, 0],
    ]);
    pipeline.run({
      batches,
      lossFactors,
      onLoss: ({ name, losses: values, weights }) => {
        const factors = weights.toArray();
        const own = sum(values.toArray().map((value, index) => value * factors[index]!));
        totals.set(name, totals.get(name)! + own);
      },
    });
    // each stage that makes the loss has a part of it
    using ofStages = Tensor.from([totals.get(activationLoss)! / 0.5], { shape: [1], dtype: 'float64' });
    pp?.allReduce(ofStages).wait();
    activationLosses.push(ofStages.item());
    for (const { mainGradient, data, partialOver } of parameters) {
      if (partialOver.includes('tp')) tp!.allReduce(mainGradient).wait();
      if (partialOver.includes('pp')) pp!.allReduce(mainGradient).wait();
      const gradient = mainGradient.read<'float32'>();
      data.write(data.read<'float32'>().map((value, index) => value - 0.1 * gradient[index]!));
    }
    return totals.get('lm_loss')!;
  });
  storage.dispose();
  return {
    losses: pipeline.isLast ? losses : [],
    activationLosses,
    parameterNames: parameters.map(({ name }) => name),
  };
}
