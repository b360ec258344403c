import { joinWorld, readProcessEnvironment, type Variables, type World } from '@mtl/comm';

export interface JoinProcessesOptions {
  /** Where launchers say what they started: process.env. */
  readonly variables: Variables;
  /** --distributed-timeout-minutes */
  readonly timeoutMinutes: number | undefined;
}

/** This process among those of its job. */
export interface JoinedProcesses {
  /** Undefined for a process alone. */
  readonly world: World | undefined;
  /** This process among those on its host. */
  readonly local: { readonly rank: number; readonly size: number };
  /** Whether a launcher has started the job again after a failure (MTL_RESTART_COUNT above 0). */
  readonly isRestart: boolean;
  /** When `mtl run` started the job, the same at every restart; undefined under other launchers. */
  readonly startedAt: Date | undefined;
}

/** Joins the job that the environment describes. @throws what `joinWorld` throws */
export async function joinProcesses(options: JoinProcessesOptions): Promise<JoinedProcesses> {
  const { variables, timeoutMinutes } = options;
  const environment = readProcessEnvironment(variables);
  const { worldSize, localRank, localWorldSize, restartCount } = environment;
  const started = variables.MTL_JOB_STARTED_MS;
  const timeout = timeoutMinutes === undefined ? {} : { timeoutMs: timeoutMinutes * 60_000 };
  return {
    world: worldSize === 1 ? undefined : await joinWorld({ variables, environment, ...timeout }),
    local: { rank: localRank, size: localWorldSize },
    isRestart: restartCount > 0,
    startedAt: started === undefined ? undefined : new Date(Number(started)),
  };
}
