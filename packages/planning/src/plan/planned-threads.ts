import type { PretrainingConfiguration } from '@mtl/configuration';
import type { Profile } from '@mtl/planner';
import { chooseThreads, flopsPerMicroBatch, flopsShapeOf } from '@mtl/run-parts/internal';
import { modelFlops } from '@mtl/trainer';
import { dryRunModel } from '../dry-run/dry-run-model.js';

/**
 * Threads of a rank's kernels that a run will choose on the machine of a measured profile, whose cores are
 * free; undefined for models of GPUs, whose times do not depend on them.
 */
export async function plannedThreads(
  configuration: PretrainingConfiguration,
  { hardware }: Profile,
): Promise<number | undefined> {
  if (hardware.state !== 'measured') return undefined;
  const { parallel } = configuration;
  const { model } = await dryRunModel(configuration);
  const numCores = hardware.gpusPerNode.value;
  const numProcesses = Math.min(parallel.worldSize, numCores);
  const { count } = await chooseThreads({
    given: parallel.threads,
    recorded: undefined,
    flopsPerMicroBatch: flopsPerMicroBatch(configuration, modelFlops(flopsShapeOf(configuration, model))),
    cores: Math.floor(numCores / numProcesses),
    measureFreeCores: async () => undefined,
  });
  return count;
}
