import {
  buildGptDatasets,
  createTokenizer,
  type GptDatasets,
  parseDataPath,
  type Tokenizer,
  type TokenizerOptions,
} from '@mtl/data';
import { ConfigurationError } from '@mtl/errors';
import type { GptConfiguration } from '../gpt-configuration.js';
import { prepareDefaultCorpus } from './default-corpus.js';

export interface TrainingData {
  readonly datasets: GptDatasets;
  readonly tokenizer: Tokenizer;
  /** The words of --data-path, or the prefix of the corpus that comes along. */
  readonly dataPath: readonly string[];
}

export interface OpenTrainingDataOptions {
  /** Where the corpus that comes along is prepared. */
  readonly corpusDirectory: string;
  /** The tokenizer.json that came with --load-hf, for where no flag names a tokenizer. */
  readonly huggingFaceTokenizer?: string | undefined;
  readonly onMessage: (text: string) => void;
}

/** Tokenizer and datasets of a run: those that --data-path names, or the corpus that comes along. */
export async function openTrainingData(
  { data, model, training }: GptConfiguration,
  { corpusDirectory, huggingFaceTokenizer, onMessage }: OpenTrainingDataOptions,
): Promise<TrainingData> {
  let tokenizerOptions: TokenizerOptions | undefined = data.tokenizer;
  if (tokenizerOptions === undefined && huggingFaceTokenizer !== undefined) {
    tokenizerOptions = { type: 'HuggingFaceTokenizer', tokenizerModel: huggingFaceTokenizer };
  }
  let { dataPath } = data;
  if (dataPath.length === 0) {
    const corpus = await prepareDefaultCorpus({
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
      remedy: 'pass --tokenizer-type GPT2BPETokenizer, or HuggingFaceTokenizer with --tokenizer-model',
    });
  }
  const tokenizer = await createTokenizer(tokenizerOptions);
  const { trainIterations, globalBatchSize, evalIterations, trainSamples } = training;
  const datasets = buildGptDatasets({
    blend: parseDataPath(dataPath),
    sequenceLength: model.sequenceLength,
    seed: training.seed,
    splitWeights: data.split,
    padId: tokenizer.padId,
    vocabularySize: tokenizer.vocabularySize,
    tokenizerIdentifiers: tokenizer.identifiers,
    endOfDocument: tokenizer.eod,
    eodMaskLoss: data.eodMaskLoss,
    resetPositionIds: data.resetPositionIds,
    resetAttentionMask: data.resetAttentionMask,
    numSamples: {
      train: trainSamples ?? trainIterations * globalBatchSize,
      // every evaluation sees the same samples
      valid: evalIterations * globalBatchSize,
      test: 0,
    },
    dataCachePath: data.dataCachePath,
    onCacheEvent: ({ kind, directory, name, reason, milliseconds }) => {
      if (kind === 'loaded') return;
      const why = reason === undefined ? '' : ` (${reason})`;
      onMessage(`index ${kind}${why} in ${Math.round(milliseconds)} ms: ${directory}/${name}`);
    },
  });
  return { datasets, tokenizer, dataPath };
}
