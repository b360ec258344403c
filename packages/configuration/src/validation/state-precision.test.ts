import { describe, expect, it } from 'vitest';
import { configure, small } from '../../test/support/configure.js';
import { refusals } from '../../test/support/refusals.js';

const aware = `${small} --use-precision-aware-optimizer`;
const read = (line: string) => configure(line).optimizer.statePrecision;

describe('--use-precision-aware-optimizer', () => {
  it("has Megatron-LM's defaults: fp32 states, and remainders of a model in bf16", () => {
    const defaults = { expAvgDtype: 'fp32', expAvgSqDtype: 'fp32', mainGradsDtype: 'fp32' };
    expect(read(`${aware} --bf16`)).toEqual({ ...defaults, storeParamRemainders: true });
    for (const line of [aware, `${aware} --fp16`, `${aware} --bf16 --no-store-param-remainders`]) {
      expect(read(line)).toEqual({ ...defaults, storeParamRemainders: false });
    }
    expect(read(`${small} --bf16`)).toBeUndefined();
  });

  it('takes a dtype for each state', () => {
    const line = `${aware} --exp-avg-dtype bf16 --exp-avg-sq-dtype fp16 --main-grads-dtype bf16`;
    expect(read(line)).toMatchObject({
      expAvgDtype: 'bf16',
      expAvgSqDtype: 'fp16',
      mainGradsDtype: 'bf16',
    });
  });

  it('reports flags without effect', () => {
    expect(configure(`${small} --bf16 --store-param-remainders`).notices.join()).toMatch(
      /--store-param-remainders has no effect without --use-precision-aware-optimizer/,
    );
    expect(configure(`${aware} --fp16 --store-param-remainders`).notices.join()).toMatch(
      /--store-param-remainders has no effect without --bf16/,
    );
  });

  it('takes dtypes of fp32 without it', () => {
    expect(read(`${small} --exp-avg-dtype fp32 --exp-avg-sq-dtype fp32`)).toBeUndefined();
  });
});

refusals(
  [
    [
      '--exp-avg-dtype bf16',
      1,
      'MTL_FLAG_NEEDS',
      /--exp-avg-dtype bf16 is a precision that it can have.*add --use-precision-aware-optimizer/s,
    ],
    [
      '--use-precision-aware-optimizer --optimizer muon',
      1,
      'MTL_FLAG_CONFLICT',
      /only the states of AdamW.*use --optimizer adam/s,
    ],
    [
      '--use-precision-aware-optimizer --device cuda',
      1,
      'MTL_FLAG_CONFLICT',
      /has no CUDA kernel.*--device cpu/s,
    ],
    ['--use-precision-aware-optimizer --exp-avg-sq-dtype fp8', 1, 'MTL_FLAG_VALUE', /fp8.*use bf16 or fp16/s],
  ],
  { numAdvised: 0 },
);
