import type { MeshCoordinates } from '@mtl/comm';
import { meshOfRun, type PretrainingConfiguration } from '@mtl/configuration';
import { checkSaveForHuggingFace, recipeOf, setThreadsOfRank } from '@mtl/run-parts/internal';
import { type DryRunModel, dryRunModel } from './dry-run-model.js';
import { type DryRunListener, type DryRunRank, dryRunRank } from './dry-run-rank.js';
import { enoughMicroBatches } from './enough-micro-batches.js';
import { metaRun } from './meta-run.js';

/** What a training run takes, by rank. */
export interface DryRun extends DryRunModel {
  /** Of the whole model. */
  readonly numParameters: number;
  /** Of them, those that a token uses; absent where these are all. */
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
  /** Whether a rank of those that differ is run. Default: all are. */
  readonly isRun?: (coordinates: MeshCoordinates) => boolean;
  /** Whether the memory of uneven routing is found, too. Default true. */
  readonly withUneven?: boolean;
  /** The listener to the steps of a rank, for each rank that is run. */
  readonly listenerOf?: (coordinates: MeshCoordinates) => DryRunListener | undefined;
}

/**
 * Builds a training run on device `meta` and runs its first step, one rank at a time: its errors, its memory
 * and its communication without its processes, its data and its time. Nothing is written. Files of a
 * tokenizer are read only where nothing else gives the size of the vocabulary.
 *
 * @throws whatever building the run throws, such as ConfigurationError
 */
export async function dryRun(
  configuration: PretrainingConfiguration,
  { isRun = () => true, withUneven = true, listenerOf }: DryRunOptions = {},
): Promise<DryRun> {
  const { parallel, checkpoint } = configuration;
  checkSaveForHuggingFace({ worldSize: parallel.worldSize, ...checkpoint });
  const { vocabularySize, model } = await dryRunModel(configuration);
  setThreadsOfRank(parallel.threads, { localSize: 1 });
  const ranks: DryRunRank[] = [];
  const run = metaRun(configuration, { numMicroBatches: enoughMicroBatches(configuration) });
  const mesh = meshOfRun(configuration.parallel);
  for (const rank of distinctRanks(configuration)) {
    if (!isRun(mesh.coordinatesOf(rank))) continue;
    const listener = listenerOf?.(mesh.coordinatesOf(rank));
    ranks.push(await dryRunRank(run, { rank, model, listener }));
  }
  const uneven: number[] = [];
  for (const { rank, coordinates } of ranks) {
    // of each stage once: the first ranks of all have the first experts
    if (!withUneven || mesh.sizes.ep === 1 || coordinates.tp > 0) continue;
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
 * One rank of each kind: of every pipeline stage the first tensor-parallel rank, and of the first and the
 * last stage, which shard the vocabulary, the last one too; data-parallel ranks are alike.
 */
export function distinctRanks(configuration: PretrainingConfiguration): readonly number[] {
  const { tensorModelParallelSize: tp, pipelineModelParallelSize: pp } = configuration.parallel;
  const mesh = meshOfRun(configuration.parallel);
  return Array.from({ length: pp }, (_, stage) => stage).flatMap((stage) => {
    const isAtEnd = stage === 0 || stage === pp - 1;
    const positions = new Set(isAtEnd ? [0, tp - 1] : [0]);
    return [...positions].map((each) => mesh.rankOf({ tp: each, cp: 0, dp: 0, pp: stage }));
  });
}
