import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { listLoaders, resolveProgram } from './resolve-program.js';

describe('resolveProgram', () => {
  it.each(['gpt', 'bert'])(
    '%s is the training program of this package, where there is no such file',
    (name) => {
      const script = resolveProgram(name);
      expect(script.endsWith(`/cli/bin/${name}-train.mjs`)).toBe(true);
      expect(existsSync(script)).toBe(true);
    },
  );

  it('names them where a program is not found', () => {
    expect(() => resolveProgram('llama')).toThrowError(
      expect.objectContaining({ code: 'MTL_PROGRAM', expected: expect.stringContaining('gpt, bert or mtl') }),
    );
  });

  it.each(['gpt', 'bert'])('names %s in place of its program that is not on the PATH', (name) => {
    const path = process.env.PATH;
    process.env.PATH = '/usr/bin:/bin';
    try {
      expect(() => resolveProgram(`${name}-train`)).toThrowError(
        expect.objectContaining({
          code: 'MTL_PROGRAM',
          remedy: expect.stringContaining(`mtl run --nproc-per-node N ${name} -- FLAGS`),
        }),
      );
    } finally {
      process.env.PATH = path;
    }
  });

  it.each([
    ['pretrain_gpt.py', /gpt -- FLAGS/],
    ['Megatron-LM/pretrain_bert.py', /bert -- FLAGS/],
    ['tasks/main.py', /mtl -- finetune --task NAME/],
    ['examples/run_glue.py', /mtl -- finetune --task NAME/],
    ['finetune_gpt.py', /mtl -- sft/],
    ['tools/preprocess_data.py', /mtl data prepare/],
    ['tools/run_text_generation_server.py', /mtl generate/],
    ['mine.py', /gpt takes the flags of Megatron-LM/],
  ])('says what %s is called here', (program, remedy) => {
    expect(() => resolveProgram(program)).toThrowError(
      expect.objectContaining({ code: 'MTL_PROGRAM', remedy: expect.stringMatching(remedy) }),
    );
  });

  it('runs a program in TypeScript by the tsx that is installed next to it', () => {
    const folder = mkdtempSync(join(tmpdir(), 'mtl-program-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const loader = join(folder, 'node_modules', 'tsx', 'loader.mjs');
    mkdirSync(join(folder, 'node_modules', 'tsx'), { recursive: true });
    writeFileSync(join(folder, 'node_modules/tsx/package.json'), '{ "exports": "./loader.mjs" }');
    for (const path of [loader, join(folder, 'train.mts'), join(folder, 'train.tsx')])
      writeFileSync(path, '');
    expect(resolveProgram(join(folder, 'train.mts'))).toBe(join(folder, 'train.mts'));
    expect(listLoaders(join(folder, 'train.mts'))).toEqual([`file://${loader}`]);
    expect(listLoaders(join(folder, 'train.mjs'))).toEqual([]);
    expect(() => resolveProgram(join(folder, 'train.tsx'))).toThrowError(
      expect.objectContaining({
        code: 'MTL_PROGRAM',
        message: expect.stringContaining('train.tsx is a file that ranks cannot be started from'),
      }),
    );
  });
});
