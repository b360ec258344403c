import { timeMatmuls } from '@mtl/kernels/matmul-choices';
import { MatmulChoiceFile, matmulPlatform } from '@mtl/runs/internal';
import { dryRunModel } from '../dry-run/dry-run.js';
import { matmulsOfRun } from '../plan/matmuls-of-run.js';
import { configurationOfReference, type ReferenceRun } from './reference-runs.js';

export interface KeepMatmulChoicesOptions {
  readonly runs: readonly ReferenceRun[];
  /** The environment variables, which may name the cache directory. */
  readonly variables: Readonly<Record<string, string | undefined>>;
}

/** The result of timing the matmuls of a calibration. */
export interface KeptMatmulChoices {
  /** The file for the choices. */
  readonly path: string;
  /** The number of timed matmul problems that were not yet in the file. */
  readonly numNew: number;
}

/**
 * Times the matmuls of reference runs on device `cpu` with the current threads. Writes the fastest algorithms
 * to the file that runs with --time-matmuls read.
 *
 * @throws the errors of `MatmulChoiceFile` and `timeMatmuls`
 */
export async function keepMatmulChoices(options: KeepMatmulChoicesOptions): Promise<KeptMatmulChoices> {
  const { runs, variables } = options;
  const file = new MatmulChoiceFile(matmulPlatform('cpu'), { variables });
  const before = file.read();
  const calls = [];
  for (const run of runs) {
    const configuration = configurationOfReference(run, 'cpu');
    const { model } = await dryRunModel(configuration);
    calls.push(...(await matmulsOfRun(configuration, model)));
  }
  const after = file.add(timeMatmuls(calls, { device: 'cpu', known: before }));
  return { path: file.path, numNew: Object.keys(after).length - Object.keys(before).length };
}
