/** A Slurm of this machine alone, with its own keys, ports and folders. */
export interface SlurmCluster {
  /** For srun and sbatch. */
  readonly env: Readonly<Record<string, string>>;
  readonly stop: () => Promise<void>;
}

/** Why this machine cannot run a Slurm of its own, or undefined. */
export declare function slurmProblem(): string | undefined;

/** Starts munged, slurmctld and slurmd in `directory`. One node with room for `numCpus` tasks. */
export declare function startSlurm(
  directory: string,
  options: { readonly numCpus: number },
): Promise<SlurmCluster>;
