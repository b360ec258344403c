import { camelCase, sharingFlags } from '@mtl/configuration/flags';
import { copyOfModel, sharedLayout } from '@mtl/configuration/strategies';
import { ConfigurationError } from '@mtl/errors';
import type { Device } from '@mtl/kernels';
import { TrainingProcesses } from '@mtl/runs';
import { joinProcesses } from '@mtl/runs/internal';
import { addFlags } from './flag-options.js';
import type { MtlCommand } from './new-command.js';

/** The option values for the flags that `addSharingFlags` adds, keyed by flag name in camel case. */
export interface SharingFlagValues {
  /** The device of the model. */
  readonly device: Device;
}

/** Returns the parallel sizes among the given option values, keyed by flag name. */
export const sharingSizes = (values: object): Readonly<Record<string, number | undefined>> =>
  Object.fromEntries(
    Object.keys(sharingFlags).map((flag) => [flag, (values as Record<string, number>)[camelCase(flag)]]),
  );

/** This process's part in the group of processes that shares a model. */
export interface SharingProcesses {
  /** The processes that share the model; undefined for a single process. */
  readonly processes: TrainingProcesses | undefined;
  /** Number of processes on this host. */
  readonly numLocal: number;
  /** True for the process that reports for all processes. */
  readonly isFirst: boolean;
}

export const alone: SharingProcesses = { processes: undefined, numLocal: 1, isFirst: true };

/** Adds the flags that determine how the processes of `mtl run` share a model. */
export const addSharingFlags = (command: MtlCommand): MtlCommand =>
  addFlags(command, sharingFlags, { filled: true });

/**
 * Runs a task in a single process, or in each of the processes that a launcher has started.
 *
 * @throws ConfigurationError `MTL_WORLD_SIZE` if the number of processes does not match the flags;
 *   `MTL_EXPERT_PARALLEL_SIZE` if the experts cannot be divided over the processes that share a layer
 */
export async function withSharingProcesses(
  flags: SharingFlagValues,
  task: (sharing: SharingProcesses) => Promise<void>,
): Promise<void> {
  const { device } = flags;
  const parallel = sharedLayout(sharingSizes(flags));
  const { world, local } = await joinProcesses({
    variables: process.env,
    timeoutMinutes: undefined,
    device,
    onMessage: (text) => process.stderr.write(`${text}\n`),
  });
  const size = world?.size ?? 1;
  const { text, size: asked } = copyOfModel(parallel);
  try {
    if (size !== asked) {
      throw new ConfigurationError(
        'MTL_WORLD_SIZE',
        `${size} process(es) for a model that ${asked} share: ${text}`,
        {
          expected: `${asked} processes`,
          remedy: `start this number with npx mtl run --nproc-per-node ${asked}, or choose sizes whose product is ${size}`,
        },
      );
    }
    const processes = world && new TrainingProcesses({ world, parallel });
    await task({ processes, numLocal: local.size, isFirst: processes?.isFirst ?? true });
  } catch (error) {
    // ends the other processes with this error; otherwise they would wait for this process
    world?.abort(error as Error);
    throw error;
  }
  world?.close();
}
