import { MtlError } from '@mtl/errors';
import { expect, it } from 'vitest';
import { bertModelOf, parseFlags, validateConfiguration } from '../src/index.js';
import { checkHuggingFaceArchitecture } from '../src/internal/index.js';

const modelOf = (...flags: readonly string[]) => {
  const given = ['--preset', 'bert-base', '--layer-norm-placement', 'post', ...flags];
  return bertModelOf(validateConfiguration(parseFlags(given, { model: 'bert' })), 256);
};
const rope = ['--position-embedding-type', 'rope'];

/** Returns the error for these flags with a request to write a directory of the transformers library. */
function refusalOf(...flags: readonly string[]): MtlError | undefined {
  try {
    checkHuggingFaceArchitecture({ kind: 'bert', model: modelOf(...flags) });
  } catch (error) {
    if (error instanceof MtlError) return error;
    throw error;
  }
  return undefined;
}

it('a BERT has learned positions, or rotary ones', () => {
  expect(modelOf().positionEmbeddingType).toBe('learned_absolute');
  expect(modelOf(...rope, '--rotary-interleaved')).toMatchObject({
    positionEmbeddingType: 'rope',
    rotaryInterleaved: true,
  });
});

it('a BERT without positions is refused', () => {
  expect(() => modelOf('--position-embedding-type', 'none')).toThrow(
    expect.objectContaining({
      code: 'MTL_FLAG_VALUE',
      expected: 'learned_absolute or rope',
      remedy: 'pass --position-embedding-type rope',
    }) as Error,
  );
});

it("is written where transformers' BERT or RoFormer computes it, and else refused by the flag", () => {
  const masks = '--bert-no-binary-head';
  expect(refusalOf()).toBeUndefined();
  expect(refusalOf(...rope, '--rotary-interleaved', masks)).toBeUndefined();
  expect(refusalOf(...rope, '--rotary-interleaved')?.expected).toBe(`${masks} true`);
  // a BERT and a RoFormer differ from the model in equally many flags
  expect(refusalOf(...rope, masks)?.expected).toBe('--position-embedding-type learned_absolute');
  expect(refusalOf(...rope, '--rotary-interleaved', masks, '--rotary-base', '500')?.expected).toBe(
    '--rotary-base 10000',
  );
});
