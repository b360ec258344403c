import type { PretrainingConfiguration } from '@mtl/configuration';
import {
  configurationOption,
  dependsOnRouting,
  distinctRanks,
  meshOfRun,
  scheduleOfStep,
} from '@mtl/configuration/internal';
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
import {
  checkSaveForHuggingFace,
  openHuggingFace,
  recipeOf,
  setThreadsOfRank,
  trainingModel,
} from '@mtl/runs/internal';
import { createTokenizer } from '@mtl/tokenizers';
import { type DryRunListener, type DryRunRank, dryRunRank, metaRun } from './dry-run-rank.js';

/** Memory, FLOPs and communication of a training run, by rank. */
export interface DryRun extends DryRunModel {
  /** Parameters of the whole model. */
  readonly numParameters: number;
  /** Parameters that a token uses; absent where it uses all. */
  readonly numActiveParameters?: number | undefined;
  /**
   * One rank of each kind, in their order: of every pipeline stage the first tensor-parallel rank, of the
   * first and the last stage the last one too. All other ranks are as one of these.
   */
  readonly ranks: readonly DryRunRank[];
  /**
   * Peak of the rank that takes the most if all tokens choose the experts of one rank, in bytes: the ranks
   * above have even routing. Absent where experts are not spread over ranks.
   */
  readonly unevenPeakBytes?: number;
}

export interface DryRunOptions {
  /** Chooses the ranks that are run among those that differ. Default: all. */
  readonly isRun?: (coordinates: MeshCoordinates) => boolean;
  /** Finds the memory of uneven routing, too. Default true. */
  readonly withUneven?: boolean;
  /** The listener to the steps of a rank, for each rank that is run. */
  readonly listenerOf?: (coordinates: MeshCoordinates) => DryRunListener | undefined;
  /** Gets each rank as soon as it is run; what it throws ends the dry run. */
  readonly onRank?: (rank: DryRunRank) => void;
}

const checks: OptionChecks<DryRunOptions> = {
  isRun: functionOption,
  withUneven: switchOption,
  listenerOf: functionOption,
  onRank: functionOption,
};

/**
 * Builds a training run on device `meta` and runs its first step, one rank at a time: its errors, its memory
 * and its communication without its processes, its data and its time. Nothing is written. Files of a
 * tokenizer are read only where nothing else gives the size of the vocabulary.
 *
 * @throws ConfigurationError MTL_OPTION; whatever building the run throws
 */
export async function dryRun(
  configuration: PretrainingConfiguration,
  options: DryRunOptions = {},
): Promise<DryRun> {
  checkArgument(configuration, { name: 'configuration', check: configurationOption });
  checkOptions(options, { of: 'dryRun', checks });
  const { isRun = () => true, withUneven = true, listenerOf, onRank } = options;
  const { parallel, checkpoint } = configuration;
  checkSaveForHuggingFace(checkpoint, parallel);
  const { vocabularySize, model } = await dryRunModel(configuration);
  setThreadsOfRank(parallel.threads, { localSize: 1 });
  const ranks: DryRunRank[] = [];
  const run = metaRun(configuration, { numMicroBatches: enoughMicroBatches(configuration) });
  const mesh = meshOfRun(configuration.parallel);
  for (const rank of distinctRanks(mesh)) {
    if (!isRun(mesh.coordinatesOf(rank))) continue;
    const listener = listenerOf?.(mesh.coordinatesOf(rank));
    const done = await dryRunRank(run, { rank, model, listener });
    onRank?.(done);
    ranks.push(done);
  }
  const uneven: number[] = [];
  for (const { rank, coordinates } of ranks) {
    // of each stage once: the first ranks of all have the first experts
    if (!withUneven || !dependsOnRouting(parallel) || !isFirstOfStage(coordinates)) continue;
    uneven.push((await dryRunRank(run, { rank, model, assumedRouting: 'first' })).peakBytes);
  }
  return {
    vocabularySize,
    model,
    numParameters: recipeOf(configuration).numParameters(model),
    numActiveParameters: recipeOf(configuration).numActiveParameters(model),
    ranks,
    ...(uneven.length === 0 ? {} : { unevenPeakBytes: Math.max(...uneven) }),
  };
}

/**
 * Returns the number of micro-batches of a step that show all that it takes: after them passes repeat. As
 * many as have the same activations in flight at the worst moment of every rank; all of a schedule that keeps
 * all of them, or that a file or a module gives.
 */
export function enoughMicroBatches({ parallel, training }: PretrainingConfiguration): number {
  const { numMicroBatches } = training;
  const { pipelineScheduleCsv, pipelineScheduleModule, microBatchGroupSize } = parallel;
  if (pipelineScheduleCsv !== undefined || pipelineScheduleModule !== undefined) return numMicroBatches;
  // schedules that go through groups of micro-batches need whole ones
  const unit = microBatchGroupSize ?? parallel.pipelineModelParallelSize;
  const all = inFlight(scheduleOfStep(parallel, numMicroBatches));
  for (let count = 2 * unit; count < numMicroBatches; count += unit) {
    const schedule = scheduleIfAny(() => scheduleOfStep(parallel, count));
    if (schedule !== undefined && inFlight(schedule) === all) return count;
  }
  return numMicroBatches;
}

const inFlight = (schedule: PipelineSchedule): string => JSON.stringify(peakActivations(schedule));

/** Undefined for a number of micro-batches that the schedule cannot have. */
function scheduleIfAny(build: () => PipelineSchedule): PipelineSchedule | undefined {
  try {
    return build();
  } catch (error) {
    if (MtlError.isInstance(error)) return undefined;
    throw error;
  }
}

/** Tokens of the bundled corpus, whose tokenizer exists only once it is prepared. */
const bundledVocabularySize = 4096;

/** The model of a training run whose data are not opened. */
interface DryRunModel {
  /** Tokens, padding not included. */
  readonly vocabularySize: number;
  readonly model: TransformerConfiguration;
}

/** Files of a tokenizer are read only where nothing else gives the size of the vocabulary. */
export async function dryRunModel(configuration: PretrainingConfiguration): Promise<DryRunModel> {
  const vocabularySize = await vocabularySizeOf(configuration);
  const huggingFace = await openHuggingFace(configuration);
  return {
    vocabularySize,
    model: trainingModel(configuration, { tokenizer: { vocabularySize }, huggingFace }),
  };
}

async function vocabularySizeOf({ data, model }: PretrainingConfiguration): Promise<number> {
  if (model.vocabularySize !== undefined) return model.vocabularySize;
  if (data.tokenizer === undefined) return bundledVocabularySize;
  return (await createTokenizer(data.tokenizer)).vocabularySize;
}
