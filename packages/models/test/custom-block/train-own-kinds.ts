import { allocateParameters, initializeParameter } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { setNumThreads } from '@mtl/kernels';
import { Pipeline } from '@mtl/pipeline';
import { oneForwardOneBackward, oneStage } from '@mtl/pipeline/schedules';
import { buildGptStages, gptBlock, numLossTokens } from '../../src/index.js';
import { smallBatch, smallGpt } from '../tensor-parallel/small-gpt.js';
import { ownFeedForward, ownNorm } from './own-kinds.js';

const numLayers = 4;
const numSteps = 6;
const seed = 5;

export interface TrainOwnKinds {
  readonly groups: { readonly tp?: ProcessGroup; readonly pp?: ProcessGroup };
  readonly sequenceParallel: boolean;
  readonly recompute: boolean;
  /** With the norm and the feed-forward network of GPT-2 instead of those of own-kinds.ts. */
  readonly standard?: boolean;
}

export interface OwnKindsResult {
  /** The loss of each step, on ranks of the last pipeline stage. */
  readonly losses: readonly number[];
  readonly parameterNames: readonly string[];
}

/** Trains a GPT of these kinds by gradient descent: three micro-batches a step. */
export function trainOwnKinds(options: TrainOwnKinds): OwnKindsResult {
  setNumThreads(1);
  const { groups, sequenceParallel, recompute } = options;
  const { tp, pp } = groups;
  const numStages = pp?.size ?? 1;
  const schedule = (numMicroBatches: number) =>
    numStages === 1 ? oneStage(numMicroBatches) : oneForwardOneBackward({ numStages, numMicroBatches });
  const { placement } = schedule(1);
  const model = { ...smallGpt, numLayers };
  const standard = gptBlock(model);
  const own = {
    norm: ownNorm,
    feedForward: ownFeedForward,
    // heads that are together larger than the hidden size, without biases
    attention: { ...standard.attention, headSize: 16, bias: false },
  };
  const { stages, parameters } = buildGptStages({
    model,
    block: options.standard === true ? standard : { ...standard, ...own },
    device: 'cpu',
    dtype: 'float32',
    seed,
    layers: placement.map((_, chunk) => ({
      start: (chunk * numLayers) / numStages,
      end: ((chunk + 1) * numLayers) / numStages,
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
  const batches = [0, 2, 4].map((first) => ({
    ...smallBatch(),
    sampleNumbers: Float64Array.of(first, first + 1),
  }));
  const lossFactor = 1 / batches.reduce((sum, batch) => sum + numLossTokens(batch), 0);
  const losses = Array.from({ length: numSteps }, () => {
    for (const { mainGradient } of parameters) mainGradient.zero();
    let total = 0;
    pipeline.run({
      batches,
      lossFactor,
      onLoss: ({ losses: values, weights }) => {
        const factors = weights.toArray();
        values.toArray().forEach((value, index) => {
          total += value * factors[index]!;
        });
      },
    });
    for (const { mainGradient, data, partialOver } of parameters) {
      if (partialOver.includes('tp')) tp!.allReduce(mainGradient).wait();
      if (partialOver.includes('pp')) pp!.allReduce(mainGradient).wait();
      const gradient = mainGradient.read<'float32'>();
      data.write(data.read<'float32'>().map((value, index) => value - 0.1 * gradient[index]!));
    }
    return total;
  });
  storage.dispose();
  return {
    losses: pipeline.isLast ? losses : [],
    parameterNames: parameters.map(({ name }) => name),
  };
}
