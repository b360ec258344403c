import { expect, it } from 'vitest';
import { type FlagName, flagNames } from '../schema/flag-schema.js';
import { validateConfiguration } from '../validation/validate-configuration.js';
import { parseFlags } from './parse-flags.js';

/** Read where a process joins its job, before there is a configuration. */
const readElsewhere: readonly FlagName[] = ['distributed-backend'];

// lines that between them come by every flag
const lines = [
  ['gpt', 1, '--preset gpt2-4m --fp16 --data-path a --tokenizer-type GPT2BPETokenizer --load x'],
  ['gpt', 1, '--recompute-granularity full --recompute-method block --profile-steps 1 2'],
  ['gpt', 1, '--lr-decay-style WSD --lr-wsd-decay-iters 5'],
  ['gpt', 8, '--pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --use-distributed-optimizer'],
  ['gpt', 1, '--train-samples 800 --optimizer muon --decoupled-lr 1e-3'],
  ['gpt', 1, '--preset gpt2-4m --lora-rank 4 --load x --save-lora y'],
  ['gpt', 1, '--preset gpt2-4m --train-data a --validation-fraction 0.1 --early-stopping-patience 2'],
  ['gpt', 1, '--preset gpt2-4m --swiglu --disable-bias-linear --num-experts 4'],
  ['gpt', 2, '--preset gpt2-4m --context-parallel-size 2'],
  ['bert', 1, ''],
] as const;

it('makes a difference: a flag that is not read would be accepted and do nothing', () => {
  const read = new Set<string>(readElsewhere);
  for (const [model, worldSize, line] of lines) {
    const flags = parseFlags(
      line.split(' ').filter((word) => word !== ''),
      { model },
    );
    const values = new Proxy(flags.values, {
      get: (target, name) => {
        read.add(String(name));
        return target[name as FlagName];
      },
    });
    validateConfiguration({ ...flags, values }, { worldSize });
  }
  expect(flagNames.filter((name) => !read.has(name))).toEqual([]);
});
