import { describe, expect, it } from 'vitest';
import { fasterPrecision } from './faster-precision.js';

describe('fasterPrecision', () => {
  const configuration = {
    kind: 'gpt',
    preset: 'default',
    training: { precision: 'fp32' },
    parallel: { device: 'cpu' },
  } as const;
  const host = { instructionSet: 'amx' };

  it('names --bf16 for the default preset where it was measured', () => {
    expect(fasterPrecision(configuration, host)).toMatch(/AMX: --bf16 takes half of the time/);
  });

  it.each([
    ['a processor without AMX', configuration, { instructionSet: 'avx512' }],
    ['another preset', { ...configuration, preset: 'none' }, host],
    ['another model', { ...configuration, kind: 'bert', preset: 'bert-default' } as const, host],
    ['a run in bfloat16', { ...configuration, training: { precision: 'bf16' } } as const, host],
    ['a GPU', { ...configuration, parallel: { device: 'cuda' } } as const, host],
  ])('says nothing for %s', (_, run, processor) => {
    expect(fasterPrecision(run, processor)).toBeUndefined();
  });
});
