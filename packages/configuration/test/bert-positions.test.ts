import { MtlError } from '@mtl/errors';
import { expect, it } from 'vitest';
import { describeBertModel, parseFlags, validateConfiguration } from '../src/index.js';
import { checkHuggingFaceArchitecture } from '../src/saved/index.js';

const configureModel = (...flags: readonly string[]) => {
  const given = ['--preset', 'bert-base', '--layer-norm-placement', 'post', ...flags];
  return describeBertModel(validateConfiguration(parseFlags(given, { model: 'bert' })), 256);
};
const rope = ['--position-embedding-type', 'rope'];

/** Returns the error for these flags with a request to write a directory of the transformers library. */
function catchRefusal(...flags: readonly string[]): MtlError | undefined {
  try {
    checkHuggingFaceArchitecture({ kind: 'bert', model: configureModel(...flags) });
  } catch (error) {
    if (error instanceof MtlError) return error;
    throw error;
  }
  return undefined;
}

it('a BERT has learned positions, or rotary ones', () => {
  expect(configureModel().positionEmbeddingType).toBe('learned_absolute');
  expect(configureModel(...rope, '--rotary-interleaved')).toMatchObject({
    positionEmbeddingType: 'rope',
    rotaryInterleaved: true,
  });
});

it('a BERT without positions is refused', () => {
  expect(() => configureModel('--position-embedding-type', 'none')).toThrow(
    expect.objectContaining({
      code: 'MTL_FLAG_VALUE',
      expected: 'learned_absolute or rope',
      remedy: 'pass --position-embedding-type rope',
    }) as Error,
  );
});

it("is written where transformers' BERT or RoFormer computes it, and else refused by the flag", () => {
  const masks = '--bert-no-binary-head';
  expect(catchRefusal()).toBeUndefined();
  expect(catchRefusal(...rope, '--rotary-interleaved', masks)).toBeUndefined();
  expect(catchRefusal(...rope, '--rotary-interleaved')?.expected).toBe(`${masks} true`);
  // a BERT and a RoFormer differ from the model in equally many flags
  expect(catchRefusal(...rope, masks)?.expected).toBe('--position-embedding-type learned_absolute');
  expect(catchRefusal(...rope, '--rotary-interleaved', masks, '--rotary-base', '500')?.expected).toBe(
    '--rotary-base 10000',
  );
});
