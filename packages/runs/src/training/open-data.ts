import type { PretrainingConfiguration } from '@mtl/configuration';
import type { MicroBatchSamplerOptions, SampleDataset, SplitDatasets } from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';
import type { NumberedBatch } from '@mtl/layout';
import type { RunStart } from '@mtl/run-records';
import type { Tokenizer } from '@mtl/tokenizers';
import { datasetFingerprints, taskDataFingerprint } from '../data-changes/fingerprints.js';
import { once } from '../once.js';
import { dataOfConversations } from '../parts/conversations/open-conversations.js';
import { openTrainingData } from '../parts/data/training-data.js';
import type { RankStages } from '../parts/models/build-stages.js';
import { findRecipe } from '../parts/models/find-recipe.js';
import type { StageBatches } from '../parts/models/stage-batches.js';
import type { TrainingProcesses } from '../parts/ranks/training-processes.js';
import type { StartOfRun } from './load-start.js';
import type { OpenedRun } from './open-run.js';

/** The data on which a run is trained and evaluated. */
export interface OpenedData {
  readonly datasets: SplitDatasets<NumberedBatch>;
  readonly train: SampleDataset<NumberedBatch>;
  readonly tokenizer: Tokenizer;
  /** The words of --data-path. Empty for a run on conversations. */
  readonly dataPath: readonly string[];
  /** Returns checksums of the data files, which are read at the first call. */
  readonly fingerprints: () => RunStart['datasets'];
}

/**
 * Opens the data of a run: the documents that the flags name, or the conversations that are already in
 * memory. The first rank on each host prepares documents. All ranks must call this function.
 *
 * @throws ConfigurationError MTL_SPLIT; DataError for files that cannot be read
 */
export async function openData(run: OpenedRun): Promise<OpenedData> {
  const { configuration, conversations, onMessage } = run;
  const { conversations: files } = configuration.data;
  if (files === undefined) {
    const documents = await documentsOfRun(run);
    return { ...documents, fingerprints: once(() => datasetFingerprints(documents.dataPath)) };
  }
  const data = dataOfConversations(configuration, conversations);
  for (const line of conversations?.lines ?? []) onMessage(line);
  // the checksums cover all bytes, because conversations are read completely anyway
  const computeFingerprint = (path: string) => taskDataFingerprint(path, { isWhole: true });
  return { ...data, fingerprints: once(() => files.trainData.map(computeFingerprint)) };
}

/** Closes the files of a run's datasets. */
export function closeDatasets({ train, valid, test }: OpenedData['datasets']): void {
  for (const dataset of [train, valid, test]) dataset?.close();
}

async function documentsOfRun({
  configuration,
  corpusDirectory,
  processes,
  local,
  onMessage,
}: OpenedRun): Promise<Omit<OpenedData, 'fingerprints'>> {
  const data = await processes.prepare(
    () => openTrainingData(configuration, { corpusDirectory, onMessage }),
    { isFirstOnHost: local.rank === 0 },
  );
  const { train } = data.datasets;
  if (train !== undefined) return { ...data, train };
  closeDatasets(data.datasets);
  throw new ConfigurationError(
    'MTL_SPLIT',
    `--split ${configuration.data.split} leaves nothing to train on`,
    {
      expected: 'a first number above 0, such as 969,30,1',
    },
  );
}

/**
 * Returns this rank's micro-batches, beginning with the first unused sample. A separate thread reads them.
 * Their arrays have the shape [S, B].
 */
export function openBatches(
  { configuration, processes }: OpenedRun,
  {
    data,
    part: { pipeline },
    start: { progress },
  }: {
    readonly data: Pick<OpenedData, 'train'>;
    readonly part: Pick<RankStages, 'pipeline'>;
    readonly start: Pick<StartOfRun, 'progress'>;
  },
): StageBatches<NumberedBatch> {
  const consumedSamples = progress?.consumedSamples ?? 0;
  return findRecipe(configuration).batches({
    dataset: data.train,
    needsTokens: pipeline.isFirst || pipeline.isLast,
    sampler: describeTrainingSampler(configuration, { processes, consumedSamples }),
  });
}

/** Returns the options of the sampler for this rank's micro-batches. */
export function describeSampler(
  { training }: PretrainingConfiguration,
  of: { readonly processes: TrainingProcesses; readonly consumedSamples?: number },
): Omit<MicroBatchSamplerOptions, 'totalSamples'> {
  return {
    kind: 'single',
    microBatchSize: training.microBatchSize,
    consumedSamples: of.consumedSamples ?? 0,
    shareOfBatch: of.processes.shareOfBatch,
  };
}

/**
 * Returns the options of the sampler. The samples of documents have a fixed order. Conversations are shuffled
 * for every epoch.
 */
export function describeTrainingSampler(
  configuration: PretrainingConfiguration,
  of: { readonly processes: TrainingProcesses; readonly consumedSamples: number },
): Omit<MicroBatchSamplerOptions, 'totalSamples'> {
  const sampler = describeSampler(configuration, of);
  if (configuration.data.conversations === undefined) return sampler;
  const { seed, globalBatchSize: epochMultiple } = configuration.training;
  return { ...sampler, kind: 'cyclic', seed, epochMultiple };
}
