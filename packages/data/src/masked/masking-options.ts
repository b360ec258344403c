import { UsageError } from '@mtl/errors';

/** Which tokens a masked language model must predict (Megatron's settings and their defaults for BERT). */
export interface MaskingOptions {
  /** Share of the tokens to mask (`--mask-prob`, default 0.15). */
  readonly probability: number;
  /** Longest run of words masked together (default 3). */
  readonly maximumNgram: number;
  /** Mask all tokens of a word or none (default true). */
  readonly wholeWords: boolean;
  /**
   * Draw lengths from a geometric distribution with p = 0.2 (SpanBERT, arXiv 1907.10529, 3.1; default false).
   */
  readonly geometric: boolean;
  /** Draw longer runs more often than shorter ones, instead of the reverse (default false). */
  readonly favorLongerNgrams: boolean;
}

/** BERT's masks as Megatron makes them. */
export const bertMasking: MaskingOptions = {
  probability: 0.15,
  maximumNgram: 3,
  wholeWords: true,
  geometric: false,
  favorLongerNgrams: false,
};

/** Throws `MTL_DATA_MASKING` for settings that cannot work. */
export function checkMasking({ probability, maximumNgram }: MaskingOptions): void {
  if (!(probability > 0 && probability < 1)) {
    throw new UsageError('MTL_DATA_MASKING', `the masking probability ${probability} is not usable`, {
      expected: 'a number above 0 and below 1, such as 0.15',
      exitCode: 2,
    });
  }
  if (!Number.isInteger(maximumNgram) || maximumNgram < 1 || maximumNgram > 100) {
    throw new UsageError('MTL_DATA_MASKING', `n-grams of up to ${maximumNgram} words are not usable`, {
      expected: 'an integer from 1 to 100',
      exitCode: 2,
    });
  }
}
