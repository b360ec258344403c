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
  findRecipe,
  openHuggingFace,
  setThreadsOfRank,
  trainingModel,
} from '@mtl/runs/internal';
import { createTokenizer } from '@mtl/tokenizers';
import { type DryRunListener, type DryRunRank, dryRunRank, metaRun } from './dry-run-rank.js';

/** Memory, FLOPs and communication of a training run, by rank. */
export interface DryRun extends DryRunModel {
  /** Parameters of the whole model. */
  readonly numParameters: number;
  /** Parameters that a token uses; absent if it uses all. */
  readonly numActiveParameters?: number | undefined;
  /**
   * One rank of each kind, in rank order: the first tensor-parallel rank of every pipeline stage, and the
   * last one of the first and the last stage. Every other rank is equal to one of these.
   */
  readonly ranks: readonly DryRunRank[];
  /**
   * Peak bytes of the fullest rank if all tokens choose the experts of one rank; the ranks above have even
   * routing. Absent if experts are not sharded over ranks.
   */
  readonly unevenPeakBytes?: number;
}

export interface DryRunOptions {
  /** Chooses the ranks to run among the ranks that differ. Default: all. */
  readonly isRun?: (coordinates: MeshCoordinates) => boolean;
  /** True to find the memory of uneven routing, too. Default true. */
  readonly withUneven?: boolean;
  /** Returns the listener to the steps of a rank, for each rank that is run. */
  readonly makeListener?: (coordinates: MeshCoordinates) => DryRunListener | undefined;
  /** Called with each rank as soon as it has run; an error that it throws ends the dry run. */
  readonly onRank?: (rank: DryRunRank) => void;
}

const checks: OptionChecks<DryRunOptions> = {
  isRun: functionOption,
  withUneven: switchOption,
  makeListener: functionOption,
  onRank: functionOption,
};

/**
 * Builds a training run on device `meta` and runs its first step, one rank at a time. It finds the errors,
 * the memory and the communication of the run without its processes, its data and its time. Nothing is
 * written. Files of a tokenizer are read only if the vocabulary size is not given otherwise.
 *
 * @throws ConfigurationError MTL_OPTION; errors of building the run
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
    // once for each stage: the first rank of every stage has the first experts
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
 * Returns the number of micro-batches that represent a whole step: after them, passes repeat. It is the least
 * number with the same peak activations in flight on every rank as in the whole step. It is the full number
 * for schedules that keep all activations, and for schedules from a file or a module.
 */
export function enoughMicroBatches({ parallel, training }: PretrainingConfiguration): number {
  const { numMicroBatches } = training;
  const { pipelineScheduleCsv, pipelineScheduleModule, microBatchGroupSize } = parallel;
  if (pipelineScheduleCsv !== undefined || pipelineScheduleModule !== undefined) return numMicroBatches;
  // schedules with groups of micro-batches need whole groups
  const unit = microBatchGroupSize ?? parallel.pipelineModelParallelSize;
  const all = inFlight(scheduleOfStep(parallel, numMicroBatches));
  for (let count = 2 * unit; count < numMicroBatches; count += unit) {
    const schedule = scheduleIfAny(() => scheduleOfStep(parallel, count));
    if (schedule !== undefined && inFlight(schedule) === all) return count;
  }
  return numMicroBatches;
}

const inFlight = (schedule: PipelineSchedule): string => JSON.stringify(peakActivations(schedule));

/** Returns the schedule; undefined if it does not support the number of micro-batches. */
function scheduleIfAny(build: () => PipelineSchedule): PipelineSchedule | undefined {
  try {
    return build();
  } catch (error) {
    if (MtlError.isInstance(error)) return undefined;
    throw error;
  }
}

/** Number of tokens of the bundled corpus, whose tokenizer exists only once it is prepared. */
const bundledVocabularySize = 4096;

/** The model of a training run, found without opening its data. */
interface DryRunModel {
  /** Number of tokens without padding. */
  readonly vocabularySize: number;
  readonly model: TransformerConfiguration;
}

/** Reads the files of a tokenizer only if the vocabulary size is not given otherwise. */
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
