import { IndexedDataset } from '../indexed/indexed-dataset.js';
import type { IndexFile } from '../indexed/read-index-file.js';
import { datasetIdentifiers } from '../samples/dataset-identifiers.js';
import { inPart } from '../samples/in-part.js';
import { cachedIndex, indexCacheDirectory } from '../samples/index-cache.js';
import { PythonFloat, type PythonJsonValue, pythonJson } from '../samples/python-json.js';
import type { SampleIndexPart, SampleIndexSettings } from '../samples/sample-index-options.js';
import { splitSequences } from '../samples/split.js';
import { checkSentenceMapping } from './check-sentence-mapping.js';
import type { MaskingOptions } from './masking-options.js';
import { buildSentenceMapping } from './sentence-mapping.js';
import { countDocuments, type DocumentCounts } from './walk-sentences.js';

/**
 * Which samples of which dataset: one of sentences (`prepareDataset` with `splitSentences`), that is split by
 * documents.
 */
export interface MaskedDatasetPart extends SampleIndexPart {}

/** Which sentences a masked dataset is made of, and how its samples are chosen. */
export interface MaskedIndexOptions extends SampleIndexSettings, MaskedDatasetPart {
  /** Share of samples that aim at a shorter length (`--short-seq-prob`, default 0.1). */
  readonly shortSequenceProbability?: number;
}

/** What the kinds of masked datasets differ in. */
export interface MaskedIndexKind {
  /** Megatron's name of the class. */
  readonly className: string;
  /** Special tokens that a sample needs room for. */
  readonly numSpecialTokens: number;
  readonly minimumSentences: number;
  readonly masking: MaskingOptions;
  /** What the class adds to the identifiers. */
  readonly identifiers: Readonly<Record<string, PythonJsonValue>>;
}

/** An index and the samples over it. */
export interface MaskedIndex {
  readonly index: IndexFile;
  /** uint32 [N, 3]: first sentence, end sentence, target length of each sample. */
  readonly mapping: Uint32Array;
  /** What this part has of documents, and what of them gives no samples. */
  readonly documents: DocumentCounts;
}

/** The text whose md5 names the cache files of a masked dataset, as Megatron composes it. */
export function maskedIndexIdentifiers(
  options: MaskedIndexOptions,
  { className, masking, identifiers }: MaskedIndexKind,
): Record<string, PythonJsonValue> {
  return {
    ...datasetIdentifiers(className, options),
    masking_probability: new PythonFloat(masking.probability),
    short_sequence_probability: new PythonFloat(options.shortSequenceProbability ?? 0.1),
    masking_max_ngram: masking.maximumNgram,
    masking_do_full_word: masking.wholeWords,
    masking_do_permutation: false,
    masking_use_longer_ngrams: masking.favorLongerNgrams,
    masking_use_geometric_distribution: masking.geometric,
    ...identifiers,
  };
}

/** Opens the sentences of one part and builds or loads the mapping of its samples. */
export function openMaskedIndex(options: MaskedIndexOptions, kind: MaskedIndexKind): MaskedIndex {
  const { prefix, numSamples, sequenceLength, seed, cacheDirectory } = options;
  const { className, minimumSentences } = kind;
  using indexed = IndexedDataset.open(prefix);
  const { first, end } = splitSequences({ ...options, count: indexed.numDocuments });
  const mappingOptions = {
    documentIndices: indexed.documentIndices.subarray(first, end + 1),
    sizes: indexed.sequenceLengths,
    numSamples,
    maximumLength: sequenceLength - kind.numSpecialTokens,
    shortSequenceProbability: options.shortSequenceProbability ?? 0.1,
    seed,
    minimumSentences,
  };
  const arrays = cachedIndex({
    directory: indexCacheDirectory({ prefix: indexed.prefix, cacheDirectory }, className),
    className,
    description: pythonJson(maskedIndexIdentifiers(options, kind)),
    arrays: { sample_index: { descr: '<u4', shape: [undefined, 3] } },
    build: () => ({ sample_index: inPart(options, () => buildSentenceMapping(mappingOptions)) }),
    check: (loaded) => checkSentenceMapping({ ...mappingOptions, mapping: loaded.sample_index }),
    onEvent: options.onCacheEvent,
  });
  const documents = countDocuments({ ...mappingOptions, refuseLongSingle: false });
  return { index: indexed.index, mapping: arrays.sample_index, documents };
}
