import type { World } from '@mtl/comm';
import { ConfigurationError } from '@mtl/errors';

/** This process among those of its job. */
export interface JoinedProcesses {
  /** Undefined for a process alone. */
  readonly world: World | undefined;
  /** This process among those on its host. */
  readonly local: { readonly rank: number; readonly size: number };
  /** Whether a launcher has started the job again after a failure (MTL_RESTART_COUNT above 0). */
  readonly isRestart: boolean;
}

/** Where launchers say how many processes they started: torchrun, srun, Open MPI, MPICH. */
const sizeVariables = ['WORLD_SIZE', 'SLURM_STEP_NUM_TASKS', 'OMPI_COMM_WORLD_SIZE', 'PMI_SIZE'] as const;

/**
 * Joins the job that the environment describes.
 *
 * @throws ConfigurationError `MTL_WORLD_SIZE`
 */
export async function joinProcesses(
  environment: Readonly<Record<string, string | undefined>>,
): Promise<JoinedProcesses> {
  for (const name of sizeVariables) {
    const size = environment[name];
    if (size === undefined || Number(size) <= 1) continue;
    throw new ConfigurationError('MTL_WORLD_SIZE', `started as one of ${size} processes (${name})`, {
      expected: 'one process: there is no launcher yet',
      remedy: `start one process, or unset ${name}`,
    });
  }
  const isRestart = Number(environment['MTL_RESTART_COUNT'] ?? 0) > 0;
  return { world: undefined, local: { rank: 0, size: 1 }, isRestart };
}
