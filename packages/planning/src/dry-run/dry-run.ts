import type { PretrainingConfiguration } from '@mtl/configuration';
import { configurationOption } from '@mtl/configuration/internal';
import { dependsOnRouting, distinctRanks, meshOfRun, scheduleOfStep } from '@mtl/configuration/strategies';
import { MtlError } from '@mtl/errors';
import {
  checkArgument,
  checkOptions,
  functionOption,
  type OptionChecks,
  switchOption,
} from '@mtl/errors/options';
import { isFirstOfStage, type MeshCoordinates } from '@mtl/layout';
import type { TransformerConfiguration } from '@mtl/models';
import { type PipelineSchedule, peakActivations } from '@mtl/pipeline/schedules';
import { findRecipe, openHuggingFace, trainingModel } from '@mtl/runs/internal';
import { checkSaveForHuggingFace, setThreadsOfRank } from '@mtl/runs/lifecycle';
import { createTokenizer } from '@mtl/tokenizers';
import { type DryRunListener, type DryRunRank, dryRunRank, metaRun } from './dry-run-rank.js';

/** The memory, FLOPs and communication of a training run, by rank. */
export interface DryRun extends DryRunModel {
  /** The number of parameters of the complete model. */
  readonly numParameters: number;
  /** The number of parameters that are used for a token; absent if all are used. */
  readonly numActiveParameters?: number | undefined;
  /**
   * One rank of each kind, in rank order: the first tensor-parallel rank of every pipeline stage, and the
   * last tensor-parallel rank of the first and the last stage. All further ranks are equal to a rank in this
   * list.
   */
  readonly ranks: readonly DryRunRank[];
  /**
   * The peak bytes of the rank with the most memory if all tokens are routed to the experts of a single rank.
   * `ranks` assumes even routing. Absent if experts are not sharded.
   */
  readonly unevenPeakBytes?: number;
}

export interface DryRunOptions {
  /** Returns true for the ranks to run, among the ranks of each kind. Default: all. */
  readonly isRun?: (coordinates: MeshCoordinates) => boolean;
  /** True to also determine the memory with uneven routing. Default: true. */
  readonly withUneven?: boolean;
  /** Returns a listener for the steps of a rank. Called for each rank that is run. */
  readonly makeListener?: (coordinates: MeshCoordinates) => DryRunListener | undefined;
  /** Called with each rank after it has run. If the callback throws an error, the dry run ends. */
  readonly onRank?: (rank: DryRunRank) => void;
}

const checks: OptionChecks<DryRunOptions> = {
  isRun: functionOption,
  withUneven: switchOption,
  makeListener: functionOption,
  onRank: functionOption,
};

/**
 * Builds a training run on device `meta`, and runs its first step, one rank at a time. This shows errors,
 * memory and communication without starting the run's processes, reading its data or taking its time. Nothing
 * is written. A tokenizer's files are read only if the vocabulary size depends on them.
 *
 * @throws ConfigurationError MTL_OPTION; the errors of building the run
 */
export async function dryRun(
  configuration: PretrainingConfiguration,
  options: DryRunOptions = {},
): Promise<DryRun> {
  checkArgument(configuration, { name: 'configuration', check: configurationOption });
  checkOptions(options, { of: 'dryRun', checks });
  const { isRun = () => true, withUneven = true, makeListener, onRank } = options;
  const { parallel, checkpoint } = configuration;
  checkSaveForHuggingFace(checkpoint, parallel);
  const { vocabularySize, model } = await dryRunModel(configuration);
  setThreadsOfRank(parallel.threads, { localSize: 1 });
  const ranks: DryRunRank[] = [];
  const run = metaRun(configuration, { numMicroBatches: enoughMicroBatches(configuration) });
  const mesh = meshOfRun(configuration.parallel);
  for (const rank of distinctRanks(mesh)) {
    if (!isRun(mesh.coordinatesOf(rank))) continue;
    const listener = makeListener?.(mesh.coordinatesOf(rank));
    const done = await dryRunRank(run, { rank, model, listener });
    onRank?.(done);
    ranks.push(done);
  }
  const uneven: number[] = [];
  for (const { rank, coordinates } of ranks) {
    // all tokens are routed to the first experts, so only the first rank of every stage, which has these
    // experts, needs to run
    if (!withUneven || !dependsOnRouting(parallel) || !isFirstOfStage(coordinates)) continue;
    uneven.push((await dryRunRank(run, { rank, model, assumedRouting: 'first' })).peakBytes);
  }
  return {
    vocabularySize,
    model,
    numParameters: findRecipe(configuration).numParameters(model),
    numActiveParameters: findRecipe(configuration).numActiveParameters(model),
    ranks,
    ...(uneven.length === 0 ? {} : { unevenPeakBytes: Math.max(...uneven) }),
  };
}

/**
 * Returns a number of micro-batches that is enough to represent a complete step, because later micro-batches
 * only repeat the passes. It is the smallest number for which every rank has the same peak of activations in
 * flight as in the complete step. Schedules that keep all activations, and schedules from a file or a module,
 * need the full number.
 */
export function enoughMicroBatches({ parallel, training }: PretrainingConfiguration): number {
  const { numMicroBatches } = training;
  const { pipelineScheduleCsv, pipelineScheduleModule, microBatchGroupSize } = parallel;
  if (pipelineScheduleCsv !== undefined || pipelineScheduleModule !== undefined) return numMicroBatches;
  // some schedules need complete groups of micro-batches
  const unit = microBatchGroupSize ?? parallel.pipelineModelParallelSize;
  const all = inFlight(scheduleOfStep(parallel, numMicroBatches));
  for (let count = 2 * unit; count < numMicroBatches; count += unit) {
    const schedule = scheduleIfAny(() => scheduleOfStep(parallel, count));
    if (schedule !== undefined && inFlight(schedule) === all) return count;
  }
  return numMicroBatches;
}

const inFlight = (schedule: PipelineSchedule): string => JSON.stringify(peakActivations(schedule));

/**
 * Returns the schedule that `build` builds; undefined if it does not support this number of micro-batches.
 */
function scheduleIfAny(build: () => PipelineSchedule): PipelineSchedule | undefined {
  try {
    return build();
  } catch (error) {
    if (MtlError.isInstance(error)) return undefined;
    throw error;
  }
}

/** The assumed vocabulary size for the bundled corpus, whose tokenizer may not have been trained yet. */
const bundledVocabularySize = 4096;

/** The model of a training run, determined without opening its data. */
interface DryRunModel {
  /** Number of tokens without padding. */
  readonly vocabularySize: number;
  readonly model: TransformerConfiguration;
}

/** Returns the model of a run. A tokenizer's files are read only if the vocabulary size depends on them. */
export async function dryRunModel(configuration: PretrainingConfiguration): Promise<DryRunModel> {
  const vocabularySize = await findVocabularySize(configuration);
  const huggingFace = await openHuggingFace(configuration);
  return {
    vocabularySize,
    model: trainingModel(configuration, { tokenizer: { vocabularySize }, huggingFace }),
  };
}

async function findVocabularySize({ data, model }: PretrainingConfiguration): Promise<number> {
  if (model.vocabularySize !== undefined) return model.vocabularySize;
  if (data.tokenizer === undefined) return bundledVocabularySize;
  return (await createTokenizer(data.tokenizer)).vocabularySize;
}
