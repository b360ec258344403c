import type { ProcessEnvironment, Variables } from '@mtl/comm';

/** A job as its launcher knows it. */
export interface Job {
  /** The same at every restart; undefined where the launcher has no name for it. */
  readonly id: string | undefined;
  /** How often the launcher has started it again after a failure. */
  readonly restartCount: number;
}

/**
 * The job that this process belongs to: `mtl run` names it, Slurm numbers jobs and steps, and torchrun's
 * agent, which starts its processes again, has a run id, a port and a process id.
 */
export function readJob(
  variables: Variables,
  {
    launcher,
    restartCount,
    masterPort,
  }: Pick<ProcessEnvironment, 'launcher' | 'restartCount' | 'masterPort'>,
): Job {
  const {
    MTL_JOB_ID: id,
    SLURM_CLUSTER_NAME: cluster = '',
    SLURM_JOB_ID: job,
    SLURM_STEP_ID: step,
  } = variables;
  if (id !== undefined && id !== '') return { id, restartCount };
  if (launcher === 'torchrun') {
    const run = variables.TORCHELASTIC_RUN_ID ?? '';
    return { id: `torchrun ${run} ${masterPort} ${process.ppid}`, restartCount };
  }
  if (job !== undefined) return { id: `slurm ${cluster} ${job}.${step ?? ''}`, restartCount };
  return { id: undefined, restartCount };
}
