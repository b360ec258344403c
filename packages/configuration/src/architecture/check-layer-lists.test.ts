import { describe, expect, it } from 'vitest';
import { catchError, configure, withFlags } from '../../test/support/configure.js';

const rope = '--position-embedding-type rope';
const window = '--window-size 7,0';

describe('layers with a window, and without rotation', () => {
  it.each([
    [`${window} --window-attn-skip-freq 2`, { windowSize: '7,0', windowAttnSkipFreq: 2 }],
    [`${window} --window-attn-skip-freq ([1]*3+[0])`, { windowAttnSkipFreq: [1, 1, 1, 0] }],
    [`${rope} --no-rope-freq 4`, { noRopeFreq: 4 }],
    ['--softmax-type learnable', { softmaxType: 'learnable' }],
  ])('follow from %s', (flags, expected) => {
    expect(configure(withFlags(flags)).model).toMatchObject(expected);
  });

  it('are in no configuration without their flags, or with the usual values', () => {
    const { model } = configure(withFlags('--softmax-type vanilla'));
    expect(JSON.stringify(model)).not.toMatch(/softmax|Freq/i);
  });

  it.each([
    [`${window} --window-attn-skip-freq [1,0,1]`, 'MTL_LAYER_LIST', '4 numbers of 0 or 1'],
    [`${rope} --no-rope-freq [1]`, 'MTL_LAYER_LIST', '4 numbers of 0 or 1'],
    [`${window} --window-attn-skip-freq [2,0]`, 'MTL_FLAG_VALUE', 'a list of 0 and 1'],
  ])('are refused of %s', (flags, code, expected) => {
    const error = catchError(withFlags(flags));
    expect(error).toMatchObject({ code, expected: expect.stringContaining(expected) as string });
  });

  it.each([
    ['--window-attn-skip-freq 2', '--window-size'],
    ['--no-rope-freq 2', '--position-embedding-type rope'],
  ])('are refused where nothing has them: %s', (flags, expected) => {
    expect(catchError(withFlags(flags))).toMatchObject({ code: 'MTL_FLAG_NEEDS', expected });
  });
});
