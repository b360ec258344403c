import {
  type ConversationSamples,
  type Flags,
  type PretrainingConfiguration,
  type ResolvedFlags,
  validateConfiguration,
} from '@mtl/configuration';
import { MtlError } from '@mtl/errors';

/** A training run like another one that may take less memory. */
export interface SmallerRun {
  /** What is changed on the command line. */
  readonly flags: string;
  readonly configuration: PretrainingConfiguration;
}

export interface SmallerRunsOptions {
  /** The flags of the run. */
  readonly resolved: ResolvedFlags;
  readonly configuration: PretrainingConfiguration;
  /** Of a run on conversations: their samples, by which its steps are counted. */
  readonly conversations?: ConversationSamples | undefined;
}

/**
 * The runs that differ from one by a single change that saves memory, the cheapest in time first, without
 * those that cannot be. Dry runs tell how much each saves.
 */
export function smallerRuns(options: SmallerRunsOptions): readonly SmallerRun[] {
  const { resolved } = options;
  return changes(options.configuration).flatMap(({ flags, values }) => {
    const changed = { ...resolved, values: { ...resolved.values, ...values } };
    const configuration = validOrNone({ ...options, resolved: changed });
    return configuration === undefined ? [] : [{ flags, configuration }];
  });
}

/** Undefined for flags that the configuration refuses. */
function validOrNone(options: SmallerRunsOptions): PretrainingConfiguration | undefined {
  const { resolved, configuration, conversations } = options;
  try {
    return validateConfiguration(resolved, { worldSize: configuration.parallel.worldSize, conversations });
  } catch (error) {
    if (MtlError.isInstance(error)) return undefined;
    throw error;
  }
}

interface Change {
  readonly flags: string;
  readonly values: Flags;
}

function changes({ training, parallel, model }: PretrainingConfiguration): readonly Change[] {
  const { tensorModelParallelSize: t, dataParallelSize: d, expertModelParallelSize: e = 1 } = parallel;
  const recomputation = '--recompute-granularity full --recompute-method uniform --recompute-num-layers 1';
  const all: readonly (Change | false)[] = [
    !parallel.useDistributedOptimizer &&
      d > 1 && { flags: '--use-distributed-optimizer', values: { 'use-distributed-optimizer': true } },
    parallel.cudaGraphs && { flags: 'no --cuda-graphs', values: { 'cuda-graphs': false } },
    // sizes that do not fit are refused
    ...(model.numExperts === undefined
      ? []
      : [2, 4, 8].map(
          (factor): Change => ({
            flags: `--expert-model-parallel-size ${e * factor}`,
            values: { 'expert-model-parallel-size': e * factor },
          }),
        )),
    t > 1 &&
      !parallel.sequenceParallel && { flags: '--sequence-parallel', values: { 'sequence-parallel': true } },
    training.microBatchSize > 1 && { flags: '--micro-batch-size 1', values: { 'micro-batch-size': 1 } },
    training.recompute.granularity !== 'full' && {
      flags: recomputation,
      values: {
        'recompute-granularity': 'full',
        'recompute-method': 'uniform',
        'recompute-num-layers': 1,
      },
    },
    training.precision === 'fp32' && { flags: '--bf16', values: { bf16: true } },
    ...[2, 4, 8].map(
      (size) =>
        size > t &&
        (d * t) % size === 0 && {
          flags: `--tensor-model-parallel-size ${size}`,
          values: { 'tensor-model-parallel-size': size },
        },
    ),
  ];
  return all.filter((change): change is Change => change !== false);
}
