import { basename, resolve } from 'node:path';
import {
  type FineTuningConfiguration,
  type FlagName,
  FlagReader,
  resolveFlags,
  trackingConfiguration,
} from '@mtl/configuration';
import type { TrackedConfiguration } from '../training/tracking-of-run.js';
import { seedDirectory } from './seed-folder.js';

/**
 * The services that a fine-tuning's run of a seed reports to: a run of its own there, called as --save is
 * unless a flag names it, and after its seed where there are several.
 *
 * @throws ConfigurationError MTL_FLAG_NEEDS, MTL_SERVICE_URL
 */
export function trackedSeed(
  { tracking, checkpoint }: Pick<FineTuningConfiguration, 'tracking' | 'checkpoint'>,
  { seed, seeds }: { readonly seed: number; readonly seeds: readonly number[] },
): TrackedConfiguration {
  const given = Object.entries(tracking).filter(([, value]) => value !== undefined);
  const flags = new FlagReader(
    resolveFlags({ preset: 'none', model: 'bert', given: new Map(given as [FlagName, unknown][]) }),
  );
  const { wandb, mlflow } = trackingConfiguration(flags);
  const { save } = checkpoint;
  if (save === undefined) {
    const named = wandb === undefined ? 'mlflow-tracking-uri' : 'wandb-project';
    if (wandb ?? mlflow) flags.needs(named, '--save DIR', 'sends metrics from there');
    return { logging: {}, checkpoint: {} };
  }
  const nameOf = (name = basename(resolve(save))): string =>
    seeds.length === 1 ? name : `${name}-seed-${seed}`;
  return {
    logging: {
      ...(wandb && { wandb: { ...wandb, name: nameOf(wandb.name) } }),
      ...(mlflow && { mlflow: { ...mlflow, name: nameOf(mlflow.name) } }),
    },
    checkpoint: { save: seedDirectory(save, seed) },
  };
}
