import type { PretrainingConfiguration } from '@mtl/configuration';
import {
  documentsOfSamples,
  type MicroBatchSamplerOptions,
  type NumberedBatch,
  type SampleDataset,
  sampleMicroBatches,
} from '@mtl/data';
import { SpikeGuard, type SpikeGuardOptions, type SpikeGuardState } from '@mtl/trainer';

export interface SpikeGuardOfOptions {
  /** Of the checkpoint that the run goes on from, where it has one. */
  readonly state: SpikeGuardState | undefined;
  readonly dataset: SampleDataset<NumberedBatch>;
  /** Which samples the training run reads, in their order. */
  readonly sampler: Pick<MicroBatchSamplerOptions, 'kind' | 'seed' | 'epochMultiple'>;
  /** Whether this rank reports, and so must know where samples come from. */
  readonly reports: boolean;
}

/** What notices spikes, as the flags ask; undefined where none are to be noticed. */
export function spikeGuardOf(
  { spikes }: Pick<PretrainingConfiguration, 'spikes'>,
  { state, dataset, sampler, reports }: SpikeGuardOfOptions,
): SpikeGuard | undefined {
  const { policy, gradientNormSkipThreshold, rerunMode } = spikes;
  const isUsed = policy !== 'ignore' || gradientNormSkipThreshold !== undefined || rerunMode !== undefined;
  if (!isUsed) return undefined;
  const sourcesOf: SpikeGuardOptions['sourcesOf'] = ({ consumedSamples, globalBatchSize }) => {
    const { kind, seed, epochMultiple } = sampler;
    const samples = sampleMicroBatches({
      kind,
      consumedSamples,
      totalSamples: dataset.length,
      microBatchSize: 1,
      ...(seed === undefined ? {} : { seed }),
      ...(epochMultiple === undefined ? {} : { epochMultiple }),
    });
    const ofStep = Array.from({ length: globalBatchSize }, () => samples.next().value?.[0] ?? 0);
    return documentsOfSamples(dataset, ofStep);
  };
  return new SpikeGuard({ ...spikes, state, ...(reports ? { sourcesOf } : {}) });
}
