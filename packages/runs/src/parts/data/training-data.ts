import type { PretrainingConfiguration } from '@mtl/configuration';
import { tokenizerAdvice } from '@mtl/configuration/internal';
import { numSharesOfBatch } from '@mtl/configuration/strategies';
import { mockDataBlend, parseDataPath, type SplitDatasets } from '@mtl/data';
import { ConfigurationError, DataError } from '@mtl/errors';
import type { NumberedBatch } from '@mtl/layout';
import { NumMicroBatches } from '@mtl/optimizer';
import { createTokenizer, type Tokenizer } from '@mtl/tokenizers';
import { findRecipe } from '../models/find-recipe.js';

export interface TrainingData {
  readonly datasets: SplitDatasets<NumberedBatch>;
  readonly tokenizer: Tokenizer;
  /** The words of --data-path, or the prefix of the bundled corpus. Empty for mock data. */
  readonly dataPath: readonly string[];
}

export interface OpenTrainingDataOptions {
  /** The directory in which the bundled corpus is prepared. */
  readonly corpusDirectory: string;
  /**
   * True to throw an error if an index cannot be stored. If false, every run then builds the index again.
   * Default: false.
   */
  readonly mustKeepIndices?: boolean;
  readonly onMessage: (text: string) => void;
}

/**
 * Opens the tokenizer and the datasets of a run. The datasets are named by --data-path, or made from the
 * bundled corpus.
 */
export async function openTrainingData(
  configuration: PretrainingConfiguration,
  { corpusDirectory, mustKeepIndices = false, onMessage }: OpenTrainingDataOptions,
): Promise<TrainingData> {
  const { data, training } = configuration;
  const recipe = findRecipe(configuration);
  let { dataPath, tokenizer: tokenizerOptions } = data;
  const isMock = data.mockData === true;
  if (dataPath.length === 0 && !isMock) {
    const corpus = await recipe.prepareCorpus({
      directory: corpusDirectory,
      tokenizer: tokenizerOptions,
      onMessage,
    });
    dataPath = [corpus.prefix];
    tokenizerOptions = corpus.tokenizer;
  }
  if (tokenizerOptions === undefined) {
    throw new ConfigurationError('MTL_FLAG_REQUIRED', '--data-path is given without --tokenizer-type', {
      expected: 'the tokenizer that the dataset was made with',
      remedy: `pass ${tokenizerAdvice[configuration.kind]}`,
    });
  }
  const tokenizer = await createTokenizer(tokenizerOptions);
  const { trainIterations, globalBatchSize, evalIterations, trainSamples, start } = training;
  const batches = planMicroBatches(configuration);
  const datasets = recipe.openDatasets(configuration, {
    blend: isMock ? mockDataBlend : parseDataPath(dataPath),
    tokenizer,
    numSamples: {
      train: trainSamples ?? batches.samplesAfter(trainIterations, start),
      // the number of samples of a single evaluation, because every evaluation reads the same samples
      valid: evalIterations * globalBatchSize,
      test: 0,
    },
    dataCachePath: data.dataCachePath,
    onCacheEvent: ({ kind, directory, name, reason, milliseconds }) => {
      if (kind === 'loaded') return;
      if (kind === 'not-written' && mustKeepIndices) {
        throw new DataError('MTL_DATA_INDEX_NOT_WRITTEN', `${directory} cannot be written: ${reason}`, {
          remedy: 'name a directory that can be written to with --data-cache-path, to the training too',
        });
      }
      const why = reason === undefined ? '' : ` (${reason})`;
      onMessage(`index ${kind}${why} in ${Math.round(milliseconds)} ms: ${directory}/${name}`);
    },
  });
  return { datasets, tokenizer, dataPath };
}

/** Returns the plan that determines how many micro-batches each global batch of a training run has. */
export function planMicroBatches({ training, parallel }: PretrainingConfiguration): NumMicroBatches {
  const { globalBatchSize, microBatchSize, rampup, start } = training;
  return new NumMicroBatches({
    globalBatchSize,
    microBatchSize,
    numShares: numSharesOfBatch(parallel),
    consumedSamples: start?.consumedSamples,
    ...(rampup === undefined ? {} : { rampup }),
  });
}
