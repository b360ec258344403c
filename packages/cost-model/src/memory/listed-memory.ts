import { type PipelineSchedule, peakActivations } from '@mtl/pipeline/schedules';
import { blockSizes, parameterCounts } from '../operations/model-size.js';
import { byAxis, type GivenStepOptions, type StepOptions } from '../step/layout.js';

/**
 * The letters in this file follow Korthikanti et al. 2022: s sequence, b micro-batch, h hidden size, a heads,
 * L layers, V vocabulary; t, p and d are tensor-, pipeline- and data-parallel sizes.
 */

/**
 * How many layers have gathered parameters at the same time when parameters are sharded: the current and the
 * next layer.
 */
const numGathered = 2;

/** The bytes of a rank, by use. */
interface ListedMemory {
  readonly parameters: number;
  readonly gradients: number;
  readonly optimizer: number;
  /** Activations of all micro-batches in flight. */
  readonly activations: number;
  /**
   * Memory that the forward and backward pass of one micro-batch adds: a recomputed layer, the logits, and
   * gathered layers. If the optimizer's update needs more memory than activations and passes together, this
   * is instead the memory that the update adds.
   */
  readonly temporary: number;
}

/**
 * Returns the memory that each pipeline rank needs in a program with operation lists: 16-bit parameters,
 * gradients, and fp32 master weights and moments of Adam (Rajbhandari et al. 2020). Activations are counted
 * as in Korthikanti et al. 2022 (table 2, equations 1 to 5), with the model's actual heads and hidden size of
 * the MLP, for all micro-batches that the schedule has in flight.
 */
export function listedMemory(given: GivenStepOptions, schedule: PipelineSchedule): ListedMemory[] {
  const options = byAxis(given);
  const { model, layout, profile } = options;
  const { tp: t, dp: d } = layout;
  const { gradientBytes, distributedOptimizer, shardsParameters = false } = profile.software;
  const numChunks = schedule.placement.length;
  const { numLayers: L } = model;
  const { layer, table, positions, isTied } = parameterCounts(model, t);
  const activations = countActivationBytes(options);
  const peaks = peakActivations(schedule);
  return schedule.actions.map((_, rank) => {
    const own = schedule.placement.flatMap((each, chunk) => (each === rank ? [chunk] : []));
    const hasFirst = own.includes(0);
    const hasLast = own.includes(numChunks - 1);
    const numTables = hasFirst && hasLast && isTied ? 1 : Number(hasFirst) + Number(hasLast);
    const parameters = own.length * (L / numChunks) * layer + numTables * table + (hasFirst ? positions : 0);
    const inFlight = peaks[rank]!.numAlive;
    const kept = shardsParameters ? parameters / d : parameters;
    const owned = shardsParameters || distributedOptimizer ? parameters / d : parameters;
    const gathered = shardsParameters ? 2 * numGathered * layer : 0;
    const inPasses = {
      activations:
        inFlight * (L / numChunks) * activations.layer + (hasFirst ? inFlight * activations.embedding : 0),
      temporary: activations.recomputed + (hasLast ? activations.head : 0) + gathered,
    };
    // 16-bit gradients are converted to fp32 for the update, which begins after all activations have been
    // freed
    const inUpdate = { activations: 0, temporary: gradientBytes === 2 ? 4 * owned : 0 };
    return {
      parameters: 2 * kept,
      gradients: gradientBytes * kept,
      optimizer: 12 * owned,
      ...(inUpdate.temporary > inPasses.activations + inPasses.temporary ? inUpdate : inPasses),
    };
  });
}

/** Returns how many bytes the activations of one micro-batch take. */
function countActivationBytes({ model, layout, profile }: StepOptions) {
  const { hiddenSize: h, numHeads: a, sequenceLength: s, vocabularySize: V } = model;
  const { microBatchSize: b, tp: t, recomputation } = layout;
  const isSequenceParallel = (layout.sequenceParallel ?? false) && t > 1;
  const { attention, hasDropout } = profile.software;
  const { ffn, fc1, keysAndValues } = blockSizes(model);
  const sbh = s * b * h;
  // two dropout masks, and the inputs of norms and matmuls
  const replicated = (hasDropout ? 10 : 8) * (isSequenceParallel ? 1 / t : 1);
  // a rank's part of queries, keys and values, of the result of attention, and of the outputs of the MLP's
  // first matmul and activation: 24 bytes per hidden feature for a GPT with `F = 4 * h`
  const sharded = (4 * h + 2 * keysAndValues + 2 * (fc1 + ffn)) / (h * t);
  const scores = attention === 'flash' ? 0 : (5 * a * s) / (h * t);
  const whole = sbh * (replicated + sharded + scores);
  const input = 2 * sbh * (isSequenceParallel ? 1 / t : 1);
  const layer = {
    none: whole,
    selective: sbh * (replicated + sharded),
    full: input,
  }[recomputation];
  const recomputed = { none: 0, selective: sbh * scores, full: whole }[recomputation];
  return {
    layer,
    recomputed,
    embedding: hasDropout ? sbh * (isSequenceParallel ? 1 / t : 1) : 0,
    // the inputs of the last norm and of the output layer, and fp32 logits
    head: (4 * sbh) / (isSequenceParallel ? t : 1) + (4 * s * b * V) / t,
  };
}
