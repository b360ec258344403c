import { ConfigurationError } from '@mtl/errors';

/** Where launchers say how many processes they started: torchrun, srun, Open MPI, MPICH. */
const sizeVariables = ['WORLD_SIZE', 'SLURM_STEP_NUM_TASKS', 'OMPI_COMM_WORLD_SIZE', 'PMI_SIZE'] as const;

/**
 * Refuses to be one of several processes: each would train the same model on the same samples by itself, and save over
 * the others.
 *
 * @throws ConfigurationError `MTL_WORLD_SIZE`
 */
export function refuseManyProcesses(environment: Readonly<Record<string, string | undefined>>): void {
  for (const name of sizeVariables) {
    const size = environment[name];
    if (size === undefined || Number(size) <= 1) continue;
    throw new ConfigurationError('MTL_WORLD_SIZE', `started as one of ${size} processes (${name})`, {
      expected: 'one process: training on several is not there yet',
      remedy: `start one process, or unset ${name}`,
    });
  }
}
