import { describe, expect, it } from 'vitest';
import { chooseInstructionSet, instructionSetsToCompile } from './instruction-sets.mjs';

const cpu = (flags) => `processor\t: 0\nflags\t\t: ${flags}\nbugs\t\t: avx512f\n`;
const zen5 = cpu('fpu avx2 fma f16c avx512f avx512dq avx512bw avx512vl avx512_bf16');
const zen3 = cpu('fpu avx2 fma f16c');

describe('chooseInstructionSet', () => {
  it.each([
    ['avx512', zen5],
    ['avx2', zen3],
    ['avx2', cpu('avx2 fma avx512f avx512dq avx512bw avx512vl')], // without bf16
    ['plain', cpu('fpu sse2 avx2')], // without fma
    ['plain', 'processor\t: 0\nFeatures\t: fp asimd\n'],
  ])('%s', (name, cpuinfo) => {
    expect(chooseInstructionSet(cpuinfo)).toBe(name);
  });
});

describe('instructionSetsToCompile', () => {
  it('is all unless a first run asks for those of the machine', () => {
    expect(instructionSetsToCompile({ asked: undefined, configured: undefined, cpuinfo: zen5 })).toBe('all');
    expect(instructionSetsToCompile({ asked: undefined, configured: 'avx512', cpuinfo: zen5 })).toBe('all');
    expect(instructionSetsToCompile({ asked: 'machine', configured: undefined, cpuinfo: zen5 })).toBe(
      'avx512',
    );
  });

  it('takes nothing out of a build', () => {
    expect(instructionSetsToCompile({ asked: 'machine', configured: 'all', cpuinfo: zen5 })).toBe('all');
    expect(instructionSetsToCompile({ asked: 'machine', configured: 'avx512', cpuinfo: zen3 })).toBe(
      'avx512;avx2',
    );
    expect(instructionSetsToCompile({ asked: 'machine', configured: 'avx512', cpuinfo: zen5 })).toBe(
      'avx512',
    );
  });
});
