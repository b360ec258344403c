import type { PretrainingConfiguration } from '@mtl/configuration';
import type { MicroBatchSamplerOptions } from '@mtl/data';
import type { TrainingProcesses } from '@mtl/run-parts';

/** Which samples this rank's micro-batches are made of. */
export function samplerOf(
  { training, parallel }: PretrainingConfiguration,
  of: { readonly processes: TrainingProcesses; readonly consumedSamples?: number },
): Omit<MicroBatchSamplerOptions, 'totalSamples'> {
  return {
    kind: 'single',
    microBatchSize: training.microBatchSize,
    consumedSamples: of.consumedSamples ?? 0,
    dataParallelRank: of.processes.coordinates.dp,
    dataParallelSize: parallel.dataParallelSize,
  };
}

/** Of documents their samples in order; of conversations those of every epoch in an order of its own. */
export function trainingSamplerOf(
  configuration: PretrainingConfiguration,
  of: { readonly processes: TrainingProcesses; readonly consumedSamples: number },
): Omit<MicroBatchSamplerOptions, 'totalSamples'> {
  const sampler = samplerOf(configuration, of);
  if (configuration.data.conversations === undefined) return sampler;
  const { seed, globalBatchSize: epochMultiple } = configuration.training;
  return { ...sampler, kind: 'cyclic', seed, epochMultiple };
}
