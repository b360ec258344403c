import { parseFlags, validateConfiguration } from '@mtl/configuration';
import { KernelError, type MtlError } from '@mtl/errors';
import { describe, expect, it } from 'vitest';
import { explainOutOfMemory } from './explain-out-of-memory.js';

const full = new KernelError('MTL_OUT_OF_MEMORY', 'the system has no 8 bytes', { remedy: 'in general' });

function remedyOf(flags: string, { worldSize = 1, model = 'gpt' as 'gpt' | 'bert' } = {}): string {
  const argv = flags.split(' ').filter((word) => word !== '');
  const configuration = validateConfiguration(parseFlags(argv, { model }), { worldSize });
  return (explainOutOfMemory(full, configuration) as MtlError).remedy!;
}

describe('explainOutOfMemory', () => {
  it('names what would take less, and the command that says how much', () => {
    expect(remedyOf('--micro-batch-size 4 --global-batch-size 4')).toBe(
      'less take: --micro-batch-size 1; ' +
        '--recompute-granularity full --recompute-method uniform --recompute-num-layers 1; --bf16; ' +
        'more processes with a larger --tensor-model-parallel-size or --pipeline-model-parallel-size. ' +
        'mtl plan --num-processes 1 --memory GIB -- FLAGS says how much, and what would fit',
    );
  });

  it('leaves out what is passed already', () => {
    const layout = '--tensor-model-parallel-size 2 --micro-batch-size 1';
    const remedy = remedyOf(`${layout} --bf16`, { worldSize: 4, model: 'bert' });
    expect(remedy).toMatch(/^less take: --use-distributed-optimizer; --sequence-parallel; --recompute-gran/);
    expect(remedy).not.toMatch(/bf16|micro-batch/);
    expect(remedy).toContain('mtl plan --model bert --num-processes 4 --memory');
    const everything =
      '--use-distributed-optimizer --sequence-parallel --bf16 --recompute-granularity full --recompute-method uniform';
    expect(remedyOf(`${layout} ${everything}`, { worldSize: 2 })).toMatch(/^less take: more processes/);
  });

  it('says that recorded passes take memory', () => {
    const flags = '--device cuda --pipeline-model-parallel-size 2 --micro-batch-size 1';
    expect(remedyOf(`${flags} --cuda-graphs`, { worldSize: 2 })).toMatch(/^less take: no --cuda-graphs; /);
    expect(remedyOf(flags, { worldSize: 2 })).not.toContain('cuda-graphs');
  });

  it('leaves other errors as they are', () => {
    const other = new KernelError('MTL_SHAPE', 'other');
    expect(explainOutOfMemory(other, undefined as never)).toBe(other);
    expect(explainOutOfMemory('text', undefined as never)).toBe('text');
  });
});
