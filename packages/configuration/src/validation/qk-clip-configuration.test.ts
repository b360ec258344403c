import { expect, it } from 'vitest';
import { parseFlags } from '../command-line/parse-flags.js';
import { validateConfiguration } from './validate-configuration.js';

const validated = (line: string) =>
  validateConfiguration(parseFlags(`--preset gpt2-4m ${line}`.trim().split(' '), { model: 'gpt' }));

it("has Megatron-LM's defaults, and is off", () => {
  expect(validated('').optimizer).toMatchObject({ qkClip: false, qkClipAlpha: 0.5, qkClipThreshold: 100 });
  const { optimizer, logging } = validated(
    '--qk-clip --qk-clip-alpha 0.25 --qk-clip-threshold 30 --log-max-attention-logit --optimizer muon',
  );
  expect(optimizer).toMatchObject({ qkClip: true, qkClipAlpha: 0.25, qkClipThreshold: 30 });
  expect(logging.logMaxAttentionLogit).toBe(true);
});

it('says that its numbers have no effect without it', () => {
  expect(validated('--qk-clip-threshold 30').notices).toContain(
    '--qk-clip-threshold has no effect without --qk-clip',
  );
});

it.each([
  ['--qk-clip --qk-layernorm', /undoes a scale of their weights/],
  ['--qk-clip --attn-logit-softcapping 50', /scores with a soft cap stay below it/],
  ['--qk-clip --lora-rank 4 --load x', /next to adapters do not change/],
])('is refused where weights cannot lower the scores: %s', (line, why) => {
  expect(() => validated(line)).toThrow(
    expect.objectContaining({ code: 'MTL_FLAG_CONFLICT', message: expect.stringMatching(why) as string }),
  );
});

it.each(['0', '-1', 'x'])('a soft cap is above 0: %s', (cap) => {
  for (const name of ['attn-logit-softcapping', 'final-logit-softcapping']) {
    expect(() => validated(`--${name} ${cap}`)).toThrow(expect.objectContaining({ code: 'MTL_FLAG_VALUE' }));
  }
});
