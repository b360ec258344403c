import { describe, expect, it } from 'vitest';
import { configure } from '../test/support/configure.js';
import { printConfiguration } from './print-configuration.js';

describe('printConfiguration', () => {
  it('shows every flag with its source, what follows, and what has no effect', () => {
    const text = printConfiguration(
      configure('--preset gpt2-124m --global-batch-size 8 --bf16 --use-flash-attn'),
    );
    expect(text).toMatch(/^configuration \(preset gpt2-124m\)\n {2}Model\n/);
    expect(text).toMatch(/^ {4}num-layers +12 +preset gpt2-124m$/m);
    expect(text).toMatch(/^ {4}global-batch-size +8 +command line$/m);
    expect(text).toMatch(/^ {4}adam-beta2 +0.999 +default$/m);
    expect(text).toMatch(/^ {4}save +-$/m);
    expect(text).toMatch(/^ {4}initial-loss-scale +2\^32 +default$/m);
    expect(text).toMatch(/^ {4}global batch size +8 = 8192 tokens$/m);
    expect(text).toMatch(/^ {4}processes +1 = tensor 1 x pipeline 1 x data 1$/m);
    expect(text).toMatch(/ {2}note: --use-flash-attn on the command line has no effect/);
  });

  it('can leave out what was not set', () => {
    const text = printConfiguration(configure('--preset gpt2-124m --bf16'), { all: false });
    expect(text).toMatch(/^ {4}num-layers +12 +preset gpt2-124m$/m);
    expect(text).toMatch(/^ {4}bf16 +true +command line$/m);
    expect(text).not.toMatch(/ default$/m);
  });

  it('shows a warm-up of no whole steps as it was meant', () => {
    const text = printConfiguration(configure('--train-iters 12 --lr-warmup-fraction 0.05'));
    expect(text).toMatch(/^ {4}warm-up +0\.6 of 12 iterations$/m); // 0.05 * 12 is 0.6000000000000001
  });
});
