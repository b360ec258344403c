import { parameterCounts } from '../operations/model-size.js';
import { collectiveSeconds, overlappedSeconds } from '../timing/collective-seconds.js';
import { dataGroup, type StepOptions } from './layout.js';

/** Seconds from the last backward pass of a step to its end, on the rank with the most parameters. */
interface EndOfStep {
  /**
   * The reduction of gradients and the gathering of parameters: the time that does not overlap, and the
   * slowdown by the overlapped part.
   */
  readonly dataCommunication: number;
  /** The all-reduce of the embedding's gradients, which the first and the last stage share. */
  readonly embeddingCommunication: number;
  readonly optimizer: number;
}

/**
 * Bytes that the optimizer's kernels move per parameter, by bytes of a gradient: check and unscale (8), norm
 * (4), clip (8), Adam (28), 16-bit copy (6), and zeroing of gradients. Gradients accumulated in 16 bits are
 * also converted to fp32.
 */
const optimizerBytes = { 2: 62, 4: 58 } as const;

/** How many parameter tensors a layer has: weights and biases of four matmuls and two layer norms. */
const tensorsOfLayer = 12;

/** The fraction of a bucketed reduction that remains after the backward pass. */
const lastBucket = 0.05;

/**
 * Returns the time between the last backward pass and the end of the step. The communication of sharded
 * parameters counts in the passes instead (see `shardedPasses`).
 *
 * @param lastBackward - seconds of the backward passes of a micro-batch on a rank, which can overlap with a
 *   reduction
 */
export function endOfStep({ model, layout, profile }: StepOptions, lastBackward: number): EndOfStep {
  const { hardware, software } = profile;
  const { pp: p, dp: d } = layout;
  const { embedding, isTied, total: parameters } = countParameters(model, layout);
  const data = dataGroup({ layout, profile });
  const gradients = parameters * software.gradientBytes;
  const hasShards = software.shardsParameters === true;
  const isSharded = software.distributedOptimizer || hasShards;
  const numMessages = software.reducesInBuckets ? 1 : 1 + (tensorsOfLayer * model.numLayers) / p;
  const reduction =
    numMessages *
    collectiveSeconds(
      {
        collective: isSharded ? 'reduce-scatter' : 'all-reduce',
        bytes: gradients / numMessages,
        group: data,
      },
      profile,
    );
  const gather = isSharded
    ? collectiveSeconds({ collective: 'all-gather', bytes: 2 * parameters, group: data }, profile)
    : 0;
  const isOverlapped =
    software.dataOverlap === 'always' || (software.dataOverlap === 'without-pipeline' && p === 1);
  const exposed = (seconds: number): number =>
    isOverlapped ? overlappedSeconds(seconds, { behind: lastBackward, last: lastBucket, profile }) : seconds;
  const embeddingCommunication =
    p === 1 || !isTied
      ? 0
      : collectiveSeconds(
          {
            collective: 'all-reduce',
            bytes: embedding * software.gradientBytes,
            group: { axis: 'pp', size: 2, perNode: 1 },
          },
          profile,
        );
  const bandwidth = hardware.memory.bytesPerSecond.value * hardware.memory.efficiency.value;
  const owned = parameters / (isSharded ? d : 1);
  return {
    dataCommunication: hasShards ? 0 : exposed(reduction) + exposed(gather),
    embeddingCommunication,
    optimizer: (owned * optimizerBytes[software.gradientBytes]) / bandwidth,
  };
}

/**
 * Returns the parameter counts of the rank with the most parameters, in total and for its part of an
 * embedding.
 */
function countParameters(
  model: StepOptions['model'],
  { tp: t, pp: p }: StepOptions['layout'],
): { readonly embedding: number; readonly isTied: boolean; readonly total: number } {
  const { layer, table, positions, isTied } = parameterCounts(model, t);
  const ends = (p === 1 && !isTied ? 2 : 1) * table + positions;
  return { embedding: table, isTied, total: (model.numLayers / p) * layer + ends };
}
