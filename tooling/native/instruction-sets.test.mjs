import { describe, expect, it } from 'vitest';
import { chooseInstructionSet, instructionSetsToCompile, parseInstructionSets } from './instruction-sets.mjs';

const cpu = (flags) => `processor\t: 0\nflags\t\t: ${flags}\nbugs\t\t: avx512f\n`;
const zen5 = cpu('fpu sse4_1 avx2 fma f16c avx512f avx512dq avx512bw avx512vl avx512_bf16');
const zen3 = cpu('fpu sse4_1 avx2 fma f16c');

describe('chooseInstructionSet', () => {
  it.each([
    ['amx', cpu('sse4_1 avx2 fma avx512f avx512dq avx512bw avx512vl avx512_bf16 amx_bf16 amx_tile amx_int8')],
    ['avx2', cpu('sse4_1 avx2 fma amx_bf16 amx_tile')], // tiles without what their set extends
    ['avx512', zen5],
    ['avx2', zen3],
    ['avx2', cpu('sse4_1 avx2 fma avx512f avx512dq avx512bw avx512vl')], // without bf16
    ['sse4', cpu('fpu sse2 sse4_1 avx2')], // without fma
    ['plain', cpu('fpu sse2')],
  ])('%s', (name, cpuinfo) => {
    expect(chooseInstructionSet(cpuinfo, { processor: 'x86_64' })).toBe(name);
  });

  it('takes no set of another processor', () => {
    const arm = 'processor\t: 0\nFeatures\t: fp asimd\n';
    expect(chooseInstructionSet(arm, { processor: 'aarch64' })).toBe('plain');
    expect(chooseInstructionSet(zen5, { processor: 'aarch64' })).toBe('plain');
    const sets = parseInstructionSets(
      'instruction_set(neon PROCESSOR aarch64|arm64\n  NEEDS asimd)\ninstruction_set(plain)\n',
    );
    expect(chooseInstructionSet(arm, { sets, processor: 'aarch64' })).toBe('neon');
  });
});

describe('instructionSetsToCompile', () => {
  it('is all sets unless a first run asks for the sets of the machine', () => {
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
