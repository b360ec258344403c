import { type FlagName, type ParallelConfiguration, resolveFlags } from '@mtl/configuration';
import { FlagReader, inWordsOfFlags } from '@mtl/configuration/flags';
import { parallelConfiguration, recomputeConfiguration } from '@mtl/configuration/internal';
import { numSharesOfBatch, scheduleOfStep } from '@mtl/configuration/strategies';
import { ConfigurationError } from '@mtl/errors';
import type { BertModelConfiguration, Recomputation } from '@mtl/models';
import { NumMicroBatches } from '@mtl/optimizer';
import type { FineTuningConfiguration } from '../flags/fine-tuning-configuration.js';

/** The layout in which the processes of a fine-tuning hold the model and its data. */
export interface FineTuningLayout {
  readonly parallel: ParallelConfiguration;
  readonly recompute: Recomputation;
  /** The number of micro-batches per rank and step. */
  readonly numMicroBatches: number;
  /** The pipeline rank of each chunk of the model. */
  readonly placement: readonly number[];
  /** Notes about flags that have no effect in fine-tuning. */
  readonly notices: readonly string[];
}

/**
 * Returns the layout and the recomputation that the flags request, with the same rules as in pretraining.
 *
 * @throws ConfigurationError with MTL_BATCH_SIZE, with MTL_CUDA_GRAPHS for a task with answer spans, or with
 *   a code of `parallelConfiguration`, `recomputeConfiguration` or the pipeline schedules
 */
export function fineTuningLayout(
  configuration: Pick<
    FineTuningConfiguration,
    'task' | 'parallel' | 'recompute' | 'globalBatchSize' | 'microBatchSize'
  >,
  { model, worldSize }: { readonly model: BertModelConfiguration; readonly worldSize: number },
): FineTuningLayout {
  const { globalBatchSize, microBatchSize } = configuration;
  const asked = { ...configuration.parallel, ...configuration.recompute };
  const given = Object.entries(asked).filter(([, value]) => value !== undefined);
  const flags = new FlagReader(
    resolveFlags({
      ...({ preset: 'none', model: 'bert' } as const),
      given: new Map(given as [FlagName, unknown][]),
    }),
  );
  const notices: string[] = [];
  const { numLayers, numAttentionHeads, ffnHiddenSize } = model;
  const parallel = parallelConfiguration({
    flags,
    worldSize,
    notices,
    model: {
      numLayers,
      numAttentionHeads,
      ffnHiddenSize,
      makeVocabSizeDivisibleBy: model.makeVocabularySizeDivisibleBy,
    },
  });
  if (parallel.cudaGraphs && configuration.task === 'squad') {
    throw new ConfigurationError(
      'MTL_CUDA_GRAPHS',
      '--cuda-graphs with --task squad: its head reads on the host how long samples are, which cannot be recorded',
      { remedy: 'leave --cuda-graphs out' },
    );
  }
  if (parallel.timesMatmuls) notices.push('--time-matmuls has no effect in a fine-tuning run');
  const recompute = recomputeConfiguration({ flags, model, parallel });
  const numShares = numSharesOfBatch(parallel);
  // the constructor checks divisibility; the object itself is not used
  inWordsOfFlags(() => new NumMicroBatches({ globalBatchSize, microBatchSize, numShares }));
  const numMicroBatches = globalBatchSize / (microBatchSize * numShares);
  const { placement } = scheduleOfStep(parallel, numMicroBatches);
  return { parallel, recompute, numMicroBatches, placement, notices };
}
