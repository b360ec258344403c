import { type PretrainingConfiguration, validateConfiguration } from '@mtl/configuration';
import {
  costsOfSaving,
  type FlagChange,
  flagsThatDivideModel,
  meshOfRun,
  savingsOfLayout,
} from '@mtl/configuration/internal';
import { KernelError, MtlError } from '@mtl/errors';
import { stageOf } from '@mtl/layout';
import type { FailedRun } from '@mtl/runs';
import { formatBytes } from '@mtl/trainer/internal';
import { dryRunModel, enoughMicroBatches } from '../dry-run/dry-run.js';
import { dryRunRank, metaRun } from '../dry-run/dry-run-rank.js';

const moreProcesses = `more processes with a larger ${flagsThatDivideModel.map((flag) => `--${flag}`).join(' or ')}`;

/** A process that waits longer for what explains its error looks like one that hangs. */
const mostMilliseconds = 3000;

/**
 * An error of a training run, with what helps where memory ran out: the flags that take less, with what the
 * rank takes in a dry run of each, and the command that tells more. Other errors come back as they are.
 */
export async function explainOutOfMemory(error: unknown, options: FailedRun): Promise<unknown> {
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

/** Returns changes that take less memory, as far as they are found in time. */
async function remediesOf(options: FailedRun): Promise<string[]> {
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
    const run = metaRun(configuration, { numMicroBatches: enoughMicroBatches(configuration) });
    const { model } = await dryRunModel(configuration);
    const [firstOfStage] = mesh.ranksOfStage(stageOf(mesh.coordinatesOf(rank)));
    return (await dryRunRank(run, { rank: firstOfStage!, model })).peakBytes;
  } catch {
    return undefined;
  }
}

/** A training run like another one that may take less memory. */
interface SmallerRun {
  /** The change on the command line. */
  readonly flags: string;
  readonly configuration: PretrainingConfiguration;
}

type SmallerRunsOptions = Omit<FailedRun, 'rank'>;

/**
 * The runs that differ from one by a single change that saves memory, the cheapest in time first, without
 * those that cannot be. Dry runs tell how much each saves.
 */
function smallerRuns(options: SmallerRunsOptions): readonly SmallerRun[] {
  const { resolved } = options;
  return changes(options.configuration).flatMap((change) => {
    const changed = { ...resolved, values: { ...resolved.values, ...change.values } };
    const configuration = validOrNone({ ...options, resolved: changed });
    return configuration === undefined ? [] : [{ flags: textOfChange(change), configuration }];
  });
}

/** Undefined for flags that the configuration refuses. */
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
 * Returns the changes that may save memory, the cheapest in time first; those of the layout before others.
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
    // sizes that do not fit are refused
    ...savingsOfLayout(parallel, { hasExperts: model.numExperts !== undefined }),
    ...others.filter((change): change is FlagChange => change !== false),
  ].sort((a, b) => costsOfSaving.indexOf(a.costs) - costsOfSaving.indexOf(b.costs));
}

/** Writes a change as a command line has it. */
const textOfChange = ({ values }: FlagChange): string =>
  Object.entries(values)
    .map(([flag, value]) =>
      value === true ? `--${flag}` : value === false ? `no --${flag}` : `--${flag} ${value}`,
    )
    .join(' ');
