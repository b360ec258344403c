import { UsageError } from '@mtl/errors';
import { type SentenceDocuments, walkSentences } from './walk-sentences.js';

// N = number of blocks.

/** Which sentences to gather into blocks. */
export interface BlockMappingOptions extends Omit<SentenceDocuments, 'minimumSentences'> {
  /** int32 [documents]: tokens of each document's title, which a block carries along. */
  readonly titleSizes: Int32Array;
  /** Tokens at which a block is full, its title included. */
  readonly maximumLength: number;
  /** Let blocks be a single sentence (else two or more). */
  readonly oneSentenceBlocks: boolean;
}

/**
 * Megatron's `build_blocks_mapping` (REALM and inverse cloze tasks): uint32 [N, 4], rows of first sentence,
 * end sentence, document and number of the block in its epoch, bit for bit the same and in the same order.
 * Throws `MTL_DATA_NO_SENTENCES`.
 */
export function buildBlockMapping(options: BlockMappingOptions): Uint32Array {
  const { documentIndices, titleSizes, maximumLength, oneSentenceBlocks } = options;
  if (titleSizes.length !== documentIndices.length - 1) {
    throw new UsageError('MTL_DATA_MAPPING', `${titleSizes.length} titles`, {
      expected: `one for each of ${documentIndices.length - 1} documents`,
    });
  }
  const minimumSentences = oneSentenceBlocks ? 1 : 2;
  let block = 0;
  return walkSentences({
    ...options,
    minimumSentences,
    columns: 4,
    refuseLongSingle: true,
    leastRemaining: minimumSentences,
    start: () => (document) => maximumLength - titleSizes[document]!,
    onEpoch: () => {
      block = 0;
    },
    write: (rows, row, sample) => {
      rows[4 * row] = sample.start;
      rows[4 * row + 1] = sample.end;
      rows[4 * row + 2] = sample.document;
      rows[4 * row + 3] = block++;
    },
  });
}
