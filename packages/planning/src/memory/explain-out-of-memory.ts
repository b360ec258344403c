import { meshOfRun, type PretrainingConfiguration } from '@mtl/configuration';
import { KernelError, MtlError } from '@mtl/errors';
import { formatBytes } from '@mtl/trainer/internal';
import { dryRunModel } from '../dry-run/dry-run-model.js';
import { dryRunRank } from '../dry-run/dry-run-rank.js';
import { enoughMicroBatches } from '../dry-run/enough-micro-batches.js';
import { metaRun } from '../dry-run/meta-run.js';
import { type SmallerRun, type SmallerRunsOptions, smallerRuns } from './smaller-runs.js';

const moreProcesses =
  'more processes with a larger --tensor-model-parallel-size or --pipeline-model-parallel-size';

/** A process that waits longer for what explains its error looks like one that hangs. */
const mostMilliseconds = 3000;

export interface ExplainOutOfMemoryOptions extends SmallerRunsOptions {
  /** The rank on which the run failed. */
  readonly rank: number;
}

/**
 * An error of a training run, with what helps where memory ran out: the flags that take less, with what the
 * rank takes in a dry run of each, and the command that tells more. Other errors come back as they are.
 */
export async function explainOutOfMemory(
  error: unknown,
  options: ExplainOutOfMemoryOptions,
): Promise<unknown> {
  if (!MtlError.isInstance(error) || error.code !== 'MTL_OUT_OF_MEMORY') return error;
  const { configuration } = options;
  const { worldSize } = configuration.parallel;
  const smaller = await remediesOf(options);
  const model = configuration.kind === 'gpt' ? '' : ` --model ${configuration.kind}`;
  const command = `mtl plan${model} --profile NAME --num-processes ${worldSize} -- FLAGS`;
  return new KernelError(error.code, error.message, {
    remedy: `use less memory: ${[...smaller, moreProcesses].join('; ')}. ${command} prints the memory of each rank`,
    details: error.details,
    cause: error,
  });
}

/** What takes less, as far as it is found in time. */
async function remediesOf(options: ExplainOutOfMemoryOptions): Promise<string[]> {
  const { configuration, rank } = options;
  const deadline = performance.now() + mostMilliseconds;
  const runs = smallerRuns(options);
  const bytes = await peakOf(configuration, rank);
  const remedies: string[] = [];
  for (const run of runs) {
    const isMeasured = bytes !== undefined && performance.now() < deadline;
    const less = isMeasured ? await peakOf(run.configuration, rank) : undefined;
    const remedy = remedyOf(run, { bytes, less });
    if (remedy !== undefined) remedies.push(remedy);
  }
  return remedies;
}

function remedyOf(
  { flags }: SmallerRun,
  { bytes, less }: { readonly bytes: number | undefined; readonly less: number | undefined },
): string | undefined {
  if (bytes === undefined || less === undefined) return flags;
  return less < bytes ? `${flags} (${formatBytes(less)} instead of ${formatBytes(bytes)})` : undefined;
}

/**
 * Peak of the pipeline stage of a rank in a dry run, in bytes. Undefined where the dry run fails, for
 * instance for lack of memory: the error that is explained must not be replaced by another one.
 */
async function peakOf(configuration: PretrainingConfiguration, rank: number): Promise<number | undefined> {
  try {
    const mesh = meshOfRun(configuration.parallel);
    const { pp: stage } = mesh.coordinatesOf(rank);
    const run = metaRun(configuration, { numMicroBatches: enoughMicroBatches(configuration) });
    const { model } = await dryRunModel(configuration);
    const firstOfStage = mesh.rankOf({ tp: 0, cp: 0, dp: 0, pp: stage });
    return (await dryRunRank(run, { rank: firstOfStage, model })).peakBytes;
  } catch {
    return undefined;
  }
}
