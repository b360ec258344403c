import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { resolveProgram } from './resolve-program.js';

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
});
