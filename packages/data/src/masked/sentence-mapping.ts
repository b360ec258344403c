import { UsageError } from '@mtl/errors';
import { MersenneTwister } from '../random/mersenne-twister.js';
import { type SentenceDocuments, walkSentences } from './walk-sentences.js';

// N = number of samples.

/** Which sentences to gather into samples. */
export interface SentenceMappingOptions extends SentenceDocuments {
  /** Most tokens of a sample without its special tokens. */
  readonly maximumLength: number;
  /** Share of samples that aim at a shorter length (Megatron rounds its inverse to an integer). */
  readonly shortSequenceProbability: number;
}

/**
 * Megatron's `build_mapping`: uint32 [N, 3], rows of first sentence, end sentence and target length, bit for
 * bit the same and in the same order (C++ `std::mt19937` draws the short targets). Throws
 * `MTL_DATA_NO_SENTENCES`.
 */
export function buildSentenceMapping(options: SentenceMappingOptions): Uint32Array {
  const { maximumLength, shortSequenceProbability, seed } = options;
  if (!Number.isInteger(maximumLength) || maximumLength < 2) {
    throw new UsageError('MTL_DATA_SEQUENCE_LENGTH', `samples of ${maximumLength} tokens are not possible`, {
      expected: 'room for 2 or more tokens in addition to the special ones',
      exitCode: 2,
    });
  }
  if (!(shortSequenceProbability >= 0 && shortSequenceProbability <= 1)) {
    throw new UsageError('MTL_DATA_MASKING', `the share ${shortSequenceProbability} of short samples`, {
      expected: 'a number from 0 to 1',
      exitCode: 2,
    });
  }
  // C++ round(): halves away from zero.
  const ratio = shortSequenceProbability > 0 ? Math.floor(1 / shortSequenceProbability + 0.5) : 0;
  const start = () => {
    const random = new MersenneTwister(seed);
    return () => {
      if (ratio === 0) return maximumLength;
      const drawn = random.u32();
      return drawn % ratio === 0 ? 2 + (drawn % (maximumLength - 1)) : maximumLength;
    };
  };
  return walkSentences({ ...options, start });
}
