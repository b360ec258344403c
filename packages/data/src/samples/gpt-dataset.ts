import { DataError, UsageError } from '@mtl/errors';
import type { TokenBatch } from '@mtl/layout';
import type { IndexFile } from '../indexed/index-file.js';
import { IndexedDataset } from '../indexed/indexed-dataset.js';
import { type PythonJsonValue, pythonJson } from '../python/json.js';
import { buildSplitDatasets, type SplitDatasets, type SplitDatasetsOptions } from './build-split-datasets.js';
import {
  datasetIdentifiers,
  inPart,
  type SampleIndexPart,
  type SampleIndexSettings,
  splitSequences,
} from './dataset-part.js';
import { buildGptIndices, checkGptIndices, planGptIndices } from './gpt-indices.js';
import { cachedIndex, indexCacheDirectory } from './index-cache.js';
import { createMockIndex, type MockIndex, MockSequences } from './mock-sequences.js';
import {
  assembleBatch,
  createTokenBatch,
  type SampleDataset,
  type SampleDocuments,
} from './sample-dataset.js';

/** The settings that all of a run's GPT datasets share. */
interface GptDatasetSettings extends SampleIndexSettings, SampleMaskOptions {
  /**
   * True (default) to omit the validation split's last sample if it is incomplete. The train and test splits
   * always omit an incomplete last sample.
   */
  readonly dropLastPartialValidationSequence?: boolean;
  /** The tokenizer's padding token, if it has one. */
  readonly padId?: number | undefined;
  /**
   * The vocabulary size. If a token is not below it, reading the token throws an error whose message names
   * the document and the position. Default: no check.
   */
  readonly vocabularySize?: number;
}

/** The settings of a GPT dataset, and the split of an indexed dataset that provides its samples. */
export interface GptDatasetOptions extends GptDatasetSettings, SampleIndexPart {}

/** The source of the samples' tokens: files, or synthetic documents. */
type TokenSequences = Pick<
  IndexedDataset,
  'prefix' | 'numSequences' | 'sequenceLengths' | 'copySequence' | 'close'
>;
type IndexedSequences = TokenSequences & { readonly index: IndexFile | MockIndex };

/** A GPT dataset's description, which can be sent to worker threads. */
export interface GptDatasetDescription {
  readonly kind: 'gpt';
  /** The index of the dataset's files, or the parameters of the synthetic documents. */
  readonly index: IndexFile | MockIndex;
  readonly sequenceLength: number;
  readonly masks: SampleMaskOptions;
  /** The padding token; -1 if no token counts as padding. */
  readonly padId: number;
  readonly vocabularySize: number | undefined;
  readonly documentIndex: Int32Array;
  readonly sampleIndex: Int32Array;
  readonly shuffleIndex: Uint32Array;
}

/**
 * Megatron's GPTDataset: samples of L + 1 tokens from shuffled, concatenated documents. Given the same files,
 * split, seed and sizes, the samples and their order are the same as in Megatron-Core. Use `openGptDataset`
 * to open a dataset.
 */
export class GptDataset implements SampleDataset {
  readonly description: GptDatasetDescription;
  readonly #indexed: TokenSequences;
  /** int32 [L + 1]: the tokens of the sample being read. */
  readonly #text: Int32Array;
  /** float32 [S]: the loss mask of the sample being read. */
  readonly #lossMask: Float32Array;
  readonly #positionIds: Int32Array;

  constructor(description: GptDatasetDescription) {
    this.description = description;
    const { index } = description;
    this.#indexed = 'binPath' in index ? IndexedDataset.fromIndex(index) : new MockSequences(index);
    this.#text = new Int32Array(description.sequenceLength + 1);
    this.#lossMask = new Float32Array(description.sequenceLength);
    this.#positionIds = new Int32Array(description.sequenceLength);
  }

  get length(): number {
    return this.description.shuffleIndex.length;
  }
  get sequenceLength(): number {
    return this.description.sequenceLength;
  }

  /**
   * Returns a sample's L + 1 tokens. An incomplete last sample is padded with the padding id, or with -1 if
   * there is none.
   */
  text(sample: number): Int32Array {
    this.#readText(sample);
    return this.#text.slice();
  }

  createBatch(batchSize: number): TokenBatch {
    const { sequenceLength, masks } = this.description;
    return createTokenBatch({ batchSize, sequenceLength, withKeyStart: masks.resetAttentionMask === true });
  }

  finishBatch(batch: TokenBatch): TokenBatch {
    return batch;
  }

  sample(sample: number): TokenBatch {
    return assembleBatch(this, [sample]);
  }

  fillRow({ sample, batch, row }: { sample: number; batch: TokenBatch; row: number }): void {
    this.#readText(sample);
    const { sequenceLength, masks, padId } = this.description;
    const { batchSize, tokens, labels, lossMask, positionIds, keyStart } = batch;
    const text = this.#text;
    fillMasks({
      tokens: text.subarray(0, sequenceLength),
      lossMask: this.#lossMask,
      positionIds: this.#positionIds,
      keyStart: keyStart?.subarray(row * sequenceLength, (row + 1) * sequenceLength),
      masks,
    });
    for (let s = 0; s < sequenceLength; s++) {
      const at = s * batchSize + row;
      const [token, label] = [text[s]!, text[s + 1]!];
      // padding must not count in the loss, and its id must be a valid index into the embedding
      tokens[at] = token === padId ? 0 : token;
      labels[at] = label === padId ? 0 : label;
      lossMask[at] = label === padId ? 0 : this.#lossMask[s]!;
      positionIds[at] = this.#positionIds[s]!;
    }
    batch.sampleNumbers[row] = sample;
  }

  /** Returns a sample's documents. Here, a document is a sequence of the indexed dataset. */
  listDocuments(sample: number): SampleDocuments {
    const { documentIndex, sampleIndex } = this.description;
    const row = this.#findRow(sample);
    const documents = documentIndex.subarray(sampleIndex[2 * row]!, sampleIndex[2 * row + 2]! + 1);
    return { source: this.#indexed.prefix, documents: [...documents] };
  }

  close(): void {
    this.#indexed.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #findRow(sample: number): number {
    const row = this.description.shuffleIndex[sample];
    if (row !== undefined) return row;
    throw new UsageError('MTL_DATA_OUT_OF_RANGE', `sample ${sample} does not exist`, {
      expected: `0 to ${this.length - 1}`,
    });
  }

  #readText(sample: number): void {
    const { documentIndex, sampleIndex, padId } = this.description;
    const row = this.#findRow(sample);
    const target = this.#text;
    const firstPosition = sampleIndex[2 * row]!;
    const lastPosition = sampleIndex[2 * row + 2]!;
    let filled = 0;
    for (let position = firstPosition; position <= lastPosition; position++) {
      const sequence = documentIndex[position]!;
      const offset = position === firstPosition ? sampleIndex[2 * row + 1]! : 0;
      const end =
        position === lastPosition ? sampleIndex[2 * row + 3]! + 1 : this.#indexed.sequenceLengths[sequence]!;
      // If the last document is empty, Megatron's end offset is -1, and there is nothing to read.
      if (end <= offset || offset < 0) continue;
      const length = end - offset;
      this.#indexed.copySequence({ sequence, offset, length, target, targetOffset: filled });
      this.#checkVocabulary({ sequence, offset, filled, length });
      filled += length;
    }
    target.fill(padId, filled);
  }

  #checkVocabulary(part: { sequence: number; offset: number; filled: number; length: number }): void {
    const { vocabularySize } = this.description;
    if (vocabularySize === undefined) return;
    for (let i = 0; i < part.length; i++) {
      const token = this.#text[part.filled + i]!;
      if (token >= 0 && token < vocabularySize) continue;
      throw new DataError(
        'MTL_DATA_TOKEN_OUT_OF_VOCABULARY',
        `${this.#indexed.prefix}: sequence ${part.sequence}, position ${part.offset + i} holds token ${token}`,
        {
          expected: `integers from 0 to ${vocabularySize - 1}`,
          remedy:
            'train with the tokenizer that wrote the dataset, or prepare the dataset again with this one',
        },
      );
    }
  }
}

/**
 * Opens a split of an indexed dataset for training, and builds or loads Megatron's three indices. Throws
 * coded errors if a file is invalid, the split is empty, or there are too few tokens.
 */
export function openGptDataset(options: GptDatasetOptions): GptDataset {
  const indexed = IndexedDataset.open(options.prefix);
  try {
    return new GptDataset(describeGptDataset({ ...options, indexed }));
  } finally {
    indexed.close();
  }
}

/**
 * Opens a split of synthetic data, which needs neither files nor a cache. The samples equal those in
 * Megatron-LM's MockGPTDataset.
 *
 * @throws UsageError MTL_DATA_MASKING without `vocabularySize` and `endOfDocument`
 */
function openMockGptDataset(options: GptDatasetOptions): GptDataset {
  const { endOfDocument, vocabularySize } = options;
  if (endOfDocument === undefined || vocabularySize === undefined) {
    throw new UsageError('MTL_DATA_MASKING', 'mock data is opened without a vocabulary', {
      expected: 'vocabularySize and endOfDocument of a tokenizer',
    });
  }
  const indexed = new MockSequences(createMockIndex({ endOfDocument, vocabularySize }));
  return new GptDataset(describeGptDataset({ ...options, cacheDirectory: false, indexed }));
}

/** Returns the identifiers whose md5 is part of the names of a GPT dataset's cache files, as in Megatron. */
function gptDatasetIdentifiers(options: GptDatasetOptions): Record<string, PythonJsonValue> {
  return datasetIdentifiers('GPTDataset', options);
}

function indicesOptions(options: GptDatasetOptions & { indexed: IndexedSequences }) {
  const { indexed, split, numSamples, sequenceLength, seed } = options;
  if (!Number.isInteger(sequenceLength) || sequenceLength < 1) {
    throw new UsageError('MTL_DATA_SEQUENCE_LENGTH', `the sequence length ${sequenceLength} is not usable`, {
      expected: 'a positive integer',
      exitCode: 2,
    });
  }
  const documents = splitSequences({ ...options, count: indexed.numSequences });
  const dropLast = split !== 'valid' || (options.dropLastPartialValidationSequence ?? true);
  return { sizes: indexed.sequenceLengths, documents, numSamples, sequenceLength, seed, dropLast };
}

function describeGptDataset(
  options: GptDatasetOptions & { indexed: IndexedSequences },
): GptDatasetDescription {
  const { indexed, cacheDirectory, split, onCacheEvent } = options;
  const className = 'GPTDataset';
  const indices = indicesOptions(options);
  const plan = inPart(options, () => planGptIndices(indices));
  const numDocuments = indices.documents.end - indices.documents.first;
  const arrays = cachedIndex({
    directory: indexCacheDirectory({ prefix: indexed.prefix, cacheDirectory }, className),
    className,
    split,
    description: pythonJson(gptDatasetIdentifiers(options)),
    arrays: {
      document_index: { descr: '<i4', shape: [plan.numEpochs * numDocuments] },
      sample_index: { descr: '<i4', shape: [plan.numSamples + 1, 2] },
      shuffle_index: { descr: '<u4', shape: [plan.numSamples] },
    },
    build: () => {
      const built = inPart(options, () => buildGptIndices(indices));
      return {
        document_index: built.documentIndex,
        sample_index: built.sampleIndex,
        shuffle_index: built.shuffleIndex,
      };
    },
    check: (loaded) =>
      checkGptIndices({
        sizes: indices.sizes,
        documents: indices.documents,
        plan,
        sequenceLength: indices.sequenceLength,
        documentIndex: loaded.document_index,
        sampleIndex: loaded.sample_index,
        shuffleIndex: loaded.shuffle_index,
      }),
    onEvent: onCacheEvent,
  });
  const { endOfDocument, eodMaskLoss, resetPositionIds, resetAttentionMask } = options;
  const masks = { endOfDocument, eodMaskLoss, resetPositionIds, resetAttentionMask };
  return {
    kind: 'gpt',
    index: indexed.index,
    sequenceLength: options.sequenceLength,
    masks: Object.fromEntries(Object.entries(masks).filter(([, value]) => value !== undefined)),
    // no token counts as padding if there is no padding token, or if the padding token is also the
    // end-of-document token, because the real ends of documents would then be masked as well
    padId: options.padId === undefined || options.padId === endOfDocument ? -1 : options.padId,
    vocabularySize: options.vocabularySize,
    documentIndex: arrays.document_index,
    sampleIndex: arrays.sample_index,
    shuffleIndex: arrays.shuffle_index,
  };
}

/** How documents inside a sample are treated (Megatron's flags). */
interface SampleMaskOptions {
  /** The end-of-document token, which the three options below require. */
  readonly endOfDocument?: number | undefined;
  /** True if positions whose input is the end-of-document token do not count in the loss. */
  readonly eodMaskLoss?: boolean;
  /** True if positions restart at 0 after each end-of-document token. */
  readonly resetPositionIds?: boolean;
  /** True if attention does not cross document boundaries. */
  readonly resetAttentionMask?: boolean;
}

/**
 * Fills a sample's loss mask, positions and document starts, given its input tokens. The end-of-document
 * token belongs to the document that it ends. Each array is a single row [S].
 */
function fillMasks(options: {
  readonly tokens: Int32Array;
  readonly lossMask: Float32Array;
  readonly positionIds: Int32Array;
  readonly keyStart: Int32Array | undefined;
  readonly masks: SampleMaskOptions;
}): void {
  const { tokens, lossMask, positionIds, keyStart, masks } = options;
  const { endOfDocument, eodMaskLoss = false, resetPositionIds = false } = masks;
  let documentStart = 0;
  for (let position = 0; position < tokens.length; position++) {
    const ends = tokens[position] === endOfDocument;
    lossMask[position] = eodMaskLoss && ends ? 0 : 1;
    positionIds[position] = resetPositionIds ? position - documentStart : position;
    if (keyStart !== undefined) keyStart[position] = documentStart;
    if (ends) documentStart = position + 1;
  }
}

/** The datasets of a run. */
interface GptDatasetsOptions
  extends Omit<GptDatasetSettings, 'cacheDirectory' | 'splitWeights' | 'onCacheEvent'>,
    SplitDatasetsOptions {}

/**
 * Opens the train, valid and test splits of a dataset or a blend. Megatron's rules determine how many samples
 * each split has and how many extra samples a blend draws.
 */
export function buildGptDatasets(options: GptDatasetsOptions): SplitDatasets {
  return buildSplitDatasets(options, {
    open: (part) =>
      options.blend.isMock === true
        ? openMockGptDataset({ ...options, ...part })
        : openGptDataset({ ...options, ...part }),
    identifiers: (part) => gptDatasetIdentifiers({ ...options, ...part }),
  });
}
