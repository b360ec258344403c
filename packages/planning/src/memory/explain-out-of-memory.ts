import { type PretrainingConfiguration, validateConfiguration } from '@mtl/configuration';
import {
  costsOfSaving,
  type FlagChange,
  flagsThatDivideModel,
  meshOfRun,
  savingsOfLayout,
} from '@mtl/configuration/strategies';
import { KernelError, MtlError } from '@mtl/errors';
import { hostInformation } from '@mtl/kernels';
import { findStage } from '@mtl/layout';
import type { FailedRun } from '@mtl/runs';
import { formatBytes } from '@mtl/trainer';
import { dryRunModel, enoughMicroBatches } from '../dry-run/dry-run.js';
import { dryRunRank, metaRun } from '../dry-run/dry-run-rank.js';

const moreProcesses = `more processes with a larger ${flagsThatDivideModel.map((flag) => `--${flag}`).join(' or ')}`;

/**
 * How long to search for advice at most, in milliseconds. In a longer search, the failed process would seem
 * to hang.
 */
const mostMilliseconds = 3000;

/**
 * Adds advice to a training run's out-of-memory error: flags that save memory, the rank's memory in a dry run
 * with each flag, and the command for more information. Returns all other errors unchanged.
 */
export async function explainOutOfMemory(error: unknown, options: FailedRun): Promise<unknown> {
  if (!MtlError.isInstance(error) || error.code !== 'MTL_OUT_OF_MEMORY') return error;
  const { configuration } = options;
  const { worldSize } = configuration.parallel;
  const { isWebAssembly } = hostInformation();
  const smaller = await findRemedies(options, { mustFit: isWebAssembly });
  if (isWebAssembly) return explainOnWebAssembly(error, smaller);
  const model = configuration.kind === 'gpt' ? '' : ` --model ${configuration.kind}`;
  const command = `mtl plan${model} --profile NAME --num-processes ${worldSize} -- FLAGS`;
  return new KernelError(error.code, error.message, {
    remedy: `use less memory: ${[...smaller, moreProcesses].join('; ')}. ${command} prints the memory of each rank`,
    details: error.details,
    cause: error,
  });
}

/**
 * Returns the error for the WebAssembly kernels. These kernels compute in a single process, and their dry run
 * counts memory only up to 4 GiB.
 */
function explainOnWebAssembly(error: MtlError, smaller: readonly string[]): KernelError {
  const native = 'install native kernels, which use all memory of the machine (mtl doctor says how)';
  return new KernelError(error.code, error.message, {
    remedy: smaller.length === 0 ? native : `use less memory: ${smaller.join('; ')}; or ${native}`,
    details: error.details,
    cause: error,
  });
}

/**
 * Returns the memory-saving changes that are found within the time limit. If `mustFit` is true, returns only
 * changes whose dry run has not run out of memory.
 */
async function findRemedies(
  options: FailedRun,
  { mustFit }: { readonly mustFit: boolean },
): Promise<string[]> {
  const { configuration, rank } = options;
  const deadline = performance.now() + mostMilliseconds;
  const runs = smallerRuns(options);
  const bytes = await predictPeak(configuration, rank);
  const remedies: string[] = [];
  for (const run of runs) {
    const isMeasured = (bytes !== undefined || mustFit) && performance.now() < deadline;
    const less = isMeasured ? await predictPeak(run.configuration, rank) : undefined;
    if (mustFit && less === undefined) continue;
    const remedy = describeRemedy(run, { bytes, less });
    if (remedy !== undefined) remedies.push(remedy);
  }
  return remedies;
}

function describeRemedy(
  { flags }: SmallerRun,
  { bytes, less }: { readonly bytes: number | undefined; readonly less: number | undefined },
): string | undefined {
  if (less === undefined) return flags;
  if (bytes === undefined) return `${flags} (${formatBytes(less)})`;
  return less < bytes ? `${flags} (${formatBytes(less)} instead of ${formatBytes(bytes)})` : undefined;
}

/**
 * Returns the peak bytes of the rank's pipeline stage in a dry run. Returns undefined if the dry run fails
 * (for example, because memory runs out), so that its error does not replace the original error.
 */
async function predictPeak(
  configuration: PretrainingConfiguration,
  rank: number,
): Promise<number | undefined> {
  try {
    const mesh = meshOfRun(configuration.parallel);
    const run = metaRun(configuration, { numMicroBatches: enoughMicroBatches(configuration) });
    const { model } = await dryRunModel(configuration);
    const [firstOfStage] = mesh.ranksOfStage(findStage(mesh.coordinatesOf(rank)));
    return (await dryRunRank(run, { rank: firstOfStage!, model })).peakBytes;
  } catch {
    return undefined;
  }
}

/** A variant of a training run that may take less memory. */
interface SmallerRun {
  /** The change, as command-line flags. */
  readonly flags: string;
  readonly configuration: PretrainingConfiguration;
}

type SmallerRunsOptions = Omit<FailedRun, 'rank'>;

/**
 * Returns the valid runs that differ by a single memory-saving change, in order of increasing cost in time.
 * Dry runs then determine how much memory each change saves.
 */
function smallerRuns(options: SmallerRunsOptions): readonly SmallerRun[] {
  const { resolved } = options;
  return changes(options.configuration).flatMap((change) => {
    const changed = { ...resolved, values: { ...resolved.values, ...change.values } };
    const configuration = validOrNone({ ...options, resolved: changed });
    return configuration === undefined ? [] : [{ flags: textOfChange(change), configuration }];
  });
}

/** Returns the changed configuration; undefined if it is invalid. */
function validOrNone(options: SmallerRunsOptions): PretrainingConfiguration | undefined {
  const { resolved, configuration, conversations } = options;
  try {
    return validateConfiguration(resolved, { worldSize: configuration.parallel.worldSize, conversations });
  } catch (error) {
    if (MtlError.isInstance(error)) return undefined;
    throw error;
  }
}

/**
 * Returns changes that may save memory, in order of increasing cost in time. Among changes with equal cost,
 * changes of the layout come first.
 */
function changes({ training, parallel, model }: PretrainingConfiguration): readonly FlagChange[] {
  const others: readonly (FlagChange | false)[] = [
    parallel.cudaGraphs && { costs: 'nothing', values: { 'cuda-graphs': false } },
    training.microBatchSize > 1 && { costs: 'some', values: { 'micro-batch-size': 1 } },
    training.recompute.granularity !== 'full' && {
      costs: 'some',
      values: {
        'recompute-granularity': 'full',
        'recompute-method': 'uniform',
        'recompute-num-layers': 1,
      },
    },
    training.precision === 'fp32' && { costs: 'some', values: { bf16: true } },
  ];
  return [
    // these changes may contain invalid sizes, which are removed later
    ...savingsOfLayout(parallel, { hasExperts: model.numExperts !== undefined }),
    ...others.filter((change): change is FlagChange => change !== false),
  ].sort((a, b) => costsOfSaving.indexOf(a.costs) - costsOfSaving.indexOf(b.costs));
}

/** Formats a change as command-line flags. */
const textOfChange = ({ values }: FlagChange): string =>
  Object.entries(values)
    .map(([flag, value]) =>
      value === true ? `--${flag}` : value === false ? `no --${flag}` : `--${flag} ${value}`,
    )
    .join(' ');
