import { describe, expect, it } from 'vitest';
import { instructionSetFinding } from './doctor.js';

const all = ['plain', 'avx2', 'avx512'] as const;

describe('instructionSetFinding', () => {
  it('names the instruction set that is used', () => {
    const best = { detectedInstructionSet: 'avx512', compiledInstructionSets: all, hasAmx: false } as const;
    expect(instructionSetFinding({ ...best, instructionSet: 'avx512' })).toEqual({
      name: 'instruction set',
      status: 'ok',
      value: 'avx512',
    });
    expect(instructionSetFinding({ ...best, instructionSet: 'avx2' }).value).toBe('avx512 (lowered to avx2)');
    const withTiles = { ...best, hasAmx: true, instructionSet: 'avx512' } as const;
    expect(instructionSetFinding(withTiles).value).toBe('avx512, with AMX');
  });

  it('tells how to compile for a processor that has more than the build', () => {
    expect(
      instructionSetFinding({
        detectedInstructionSet: 'avx512',
        compiledInstructionSets: ['avx2'],
        instructionSet: 'avx2',
        hasAmx: false,
      }),
    ).toEqual({
      name: 'instruction set',
      status: 'note',
      value: 'avx512, but the kernels were compiled for avx2: avx2 is used',
      remedy: 'compile them for this machine, too: npm run build:native',
    });
  });

  it('tells that training is slow without AVX2', () => {
    const plain = { detectedInstructionSet: 'plain', instructionSet: 'plain', hasAmx: false } as const;
    expect(instructionSetFinding({ ...plain, compiledInstructionSets: all })).toMatchObject({
      status: 'note',
      remedy: expect.stringContaining('AVX2'),
    });
  });
});
