import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { testFolder } from '../processes/test-folder.mjs';
import { checkWgmma, compilePtx, kernelOfAllForms } from './check-wgmma.mjs';

const hasCompiler = spawnSync(process.env.NVCC ?? 'nvcc', ['--version']).status === 0;
const folder = testFolder('check-wgmma');
const sums = (count) => `{${Array.from({ length: count }, (_, number) => `%f${number}`).join(',')}}`;
const matmul = ({ accumulators = sums(8), left = '%rd1', immediates = '1, 1, 0, 0', type = 'bf16' } = {}) =>
  `wgmma.mma_async.sync.aligned.m64n16k16.f32.${type}.bf16 ${accumulators}, ${left}, %rd2, add, ${immediates};\n`;

describe('checkWgmma', () => {
  const problem = (wrong) => {
    const { count, problems } = checkWgmma(matmul() + matmul(wrong));
    expect(problems).toHaveLength(1);
    return `${count}: ${problems[0].replace(/: wgmma.*/s, '')}`;
  };

  it('accepts the forms of the left operand', () => {
    const registers = { left: '{%r1,%r2,%r3,%r4}', immediates: '1, 1, 1' };
    expect(checkWgmma(matmul() + matmul(registers))).toEqual({ count: 2, problems: [] });
  });

  it('counts accumulators, registers of A and immediates', () => {
    expect(problem({ accumulators: sums(7) })).toBe('2: 7 accumulators, expected 8');
    expect(problem({ accumulators: '{%f0,%f0}' })).toBe('2: an accumulator appears twice');
    expect(problem({ left: '{%r1,%r2}', immediates: '1, 1, 1' })).toBe('2: 2 registers of A, expected 4');
    expect(problem({ immediates: '1, 1, 0' })).toBe('2: 3 immediates, expected 4');
    expect(problem({ left: '{%r1,%r2,%r3,%r4}' })).toBe('2: 4 immediates, expected 3');
    for (const immediates of ['1, 1, 0, 1', '1, 1, 1, 1']) {
      expect(problem({ immediates })).toBe(`2: immediates ${immediates}, expected 1,1,0,0`);
    }
    expect(problem({ type: 'f16' })).toBe('2: operands of types .f16.bf16');
    expect(problem({ immediates: '1' }).slice(0, 15)).toBe('2: 1 immediates');
    expect(checkWgmma('wgmma.mma_async.sp x;').problems).toEqual(['1 matmuls have another form']);
  });
});

describe.skipIf(!hasCompiler)('PTX of hopper.h (needs nvcc)', () => {
  afterAll(folder.remove);
  const compiled = (definitions) => {
    folder.write('all_forms.cu', kernelOfAllForms());
    return compilePtx(join(folder.path, 'all_forms.cu'), definitions);
  };

  it('has the operands of every matmul, and waits without end', () => {
    const ptx = compiled([]);
    expect(checkWgmma(ptx)).toEqual({ count: 24, problems: [] });
    expect(ptx).not.toMatch(/\btrap;|clock64/);
  }, 120_000);

  it('built for debugging, prints and ends a wait after 2^34 cycles', () => {
    const ptx = compiled(['-DMTL_CUDA_DEBUG']);
    expect(ptx).toMatch(/mbarrier\.try_wait.*%clock64.*1717986918[45].*vprintf.*\btrap;/s);
  }, 120_000);
});
