import { IndexedDataset } from '../indexed/indexed-dataset.js';
import type { IndexFile } from '../indexed/read-index-file.js';
import { RandomState } from '../random/random-state.js';
import { assembleBatch } from '../samples/assemble-batch.js';
import type { PythonJsonValue } from '../samples/python-json.js';
import type {
  NumberedBatch,
  SampleDataset,
  SampleDatasetDescription,
  SampleDocuments,
} from '../samples/sample-dataset.js';
import type { Tokenizer } from '../tokenizers/tokenizer.js';
import type { MaskingOptions } from './masking-options.js';
import type { MaskingVocabulary } from './masking-vocabulary.js';
import type { MaskedDatasetPart, MaskedIndexOptions } from './open-masked-index.js';
import { SentenceReader } from './sentence-reader.js';
import { TokenMasker } from './token-masker.js';
import type { DocumentCounts } from './walk-sentences.js';

/** What all masked datasets of a run have in common, whatever their model. */
export interface MaskedDatasetSettings
  extends Omit<MaskedIndexOptions, keyof MaskedDatasetPart | 'tokenizerIdentifiers'> {
  /** The WordPiece tokenizer that wrote the dataset. */
  readonly tokenizer: Tokenizer;
  /** Default: the tokenizer's own; Megatron's value makes its caches and ours interchangeable. */
  readonly tokenizerIdentifiers?: PythonJsonValue;
  /** Changes to Megatron's masks. */
  readonly masking?: Partial<MaskingOptions>;
}

/** What worker threads need to open a masked dataset, whatever its model. */
export interface MaskedDatasetDescription {
  readonly index: IndexFile;
  readonly mapping: Uint32Array;
  /** Documents of this part, and how many of them give no samples. */
  readonly documents: DocumentCounts;
  readonly sequenceLength: number;
  readonly seed: number;
  readonly masking: MaskingOptions;
  readonly vocabulary: MaskingVocabulary;
}

/** Samples made of consecutive sentences with whole words masked: what those of BERT and of T5 share. */
export abstract class MaskedDataset<
  Description extends MaskedDatasetDescription & SampleDatasetDescription,
  Batch extends NumberedBatch,
> implements SampleDataset<Batch>
{
  readonly description: Description;
  protected readonly sentences: SentenceReader;
  protected readonly masker: TokenMasker;
  protected readonly random = new RandomState(0);
  /** int32 [S]: the sample being drawn. */
  protected readonly tokens: Int32Array;

  constructor(description: Description) {
    const { index, mapping, sequenceLength, masking, vocabulary } = description;
    this.description = description;
    this.sentences = new SentenceReader({
      indexed: IndexedDataset.fromIndex(index),
      mapping,
      vocabularySize: vocabulary.size,
    });
    this.masker = new TokenMasker({ vocabulary, masking, maximumLength: sequenceLength });
    this.tokens = new Int32Array(sequenceLength);
  }

  get length(): number {
    return this.sentences.numSamples;
  }
  get sequenceLength(): number {
    return this.description.sequenceLength;
  }

  abstract createBatch(batchSize: number): Batch;
  abstract fillRow(options: { readonly sample: number; readonly batch: Batch; readonly row: number }): void;
  abstract finishBatch(batch: Batch): Batch;

  sample(sample: number): Batch {
    return assembleBatch(this, [sample]);
  }

  documentsOf(sample: number): SampleDocuments {
    return { source: this.sentences.prefix, documents: [this.sentences.documentOf(sample)] };
  }

  close(): void {
    this.sentences.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** The options of a part's index, named by its tokenizer. */
export function withTokenizerIdentifiers(
  options: MaskedDatasetSettings & MaskedDatasetPart,
): MaskedIndexOptions {
  const { tokenizer, tokenizerIdentifiers = tokenizer.identifiers } = options;
  return { ...options, tokenizerIdentifiers };
}
