import type { PretrainingConfiguration } from '@mtl/configuration';
import {
  documentsOfSamples,
  type MicroBatchSamplerOptions,
  type NumberedBatch,
  type SampleDataset,
  sampleMicroBatches,
} from '@mtl/data';
import { type LossKind, SpikeGuard, type SpikeGuardOptions } from '@mtl/trainer';
import { nameOfTotal } from '@mtl/trainer/internal';

export interface SpikeGuardOfOptions {
  /** Of the model. */
  readonly losses: readonly LossKind<NumberedBatch>[];
  readonly dataset: SampleDataset<NumberedBatch>;
  /** Which samples the training run reads, in their order. */
  readonly sampler: Omit<MicroBatchSamplerOptions, 'totalSamples'>;
  /** Whether this rank reports, and so must know where samples come from. */
  readonly reports: boolean;
}

/** What notices spikes, as the flags ask; undefined where none are to be noticed. */
export function spikeGuardOf(
  { spikes }: Pick<PretrainingConfiguration, 'spikes'>,
  { losses, dataset, sampler, reports }: SpikeGuardOfOptions,
): SpikeGuard | undefined {
  const { policy, gradientNormSkipThreshold, rerunMode } = spikes;
  const isUsed = policy !== 'ignore' || gradientNormSkipThreshold !== undefined || rerunMode !== undefined;
  if (!isUsed) return undefined;
  const sourcesOf: SpikeGuardOptions['sourcesOf'] = (step) =>
    documentsOfSamples(dataset, samplesOfStep({ ...sampler, totalSamples: dataset.length }, step));
  return new SpikeGuard({
    ...spikes,
    nameOfTotal: nameOfTotal(losses),
    ...(reports ? { sourcesOf } : {}),
  });
}

/** The samples that all data-parallel ranks together read in a step. */
export function samplesOfStep(
  sampler: MicroBatchSamplerOptions,
  step: { readonly consumedSamples: number; readonly globalBatchSize: number },
): readonly number[] {
  const { microBatchSize, dataParallelSize = 1 } = sampler;
  const microBatches = sampleMicroBatches({
    ...sampler,
    // epochs of the same samples as those of the ranks
    epochMultiple: sampler.epochMultiple ?? microBatchSize * dataParallelSize,
    consumedSamples: step.consumedSamples,
    microBatchSize: 1,
    dataParallelRank: 0,
    dataParallelSize: 1,
  });
  return Array.from({ length: step.globalBatchSize }, () => microBatches.next().value ?? []).flat();
}
