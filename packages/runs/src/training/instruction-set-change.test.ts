import { expect, it } from 'vitest';
import { notesOfInstructionSet } from './instruction-set-change.js';

it('tells of another instruction set of the CPU', () => {
  const before = { device: 'cpu', instructionSet: 'simd128' } as const;
  expect(notesOfInstructionSet(before, { instructionSet: 'relaxed_simd' })).toEqual([
    expect.stringContaining('instruction set simd128, and training goes on with relaxed_simd'),
  ]);
  expect(notesOfInstructionSet(before, { instructionSet: 'simd128' })).toEqual([]);
  // a GPU computed, and computes
  expect(notesOfInstructionSet({ ...before, device: 'cuda' }, { instructionSet: 'avx2' })).toEqual([]);
});
