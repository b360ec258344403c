import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { generateAll, type Perplexity, perplexity, scoreTokens } from '../src/index.js';
import { AttentionModel } from './support/attention-model.js';

const text = Array.from({ length: 61 }, (_, index) => (index * index * 7 + index) % 40);

describe('scoreTokens', () => {
  it('gives the log-probabilities that generation reports', async () => {
    const model = new AttentionModel();
    const prompt = [5, 6, 7];
    const [generated] = await generateAll({ model, prompts: [prompt], maxNewTokens: 10, seed: 2 });
    const scores = scoreTokens({ model, tokens: [...prompt, ...generated!.tokens] });
    expect(scores.length).toBe(12);
    generated!.logProbabilities.forEach((value, index) => {
      // float32 sums in another order
      expect(Math.abs(value - scores[prompt.length - 1 + index]!)).toBeLessThan(1e-5);
    });
    model.dispose();
  });

  it.each([
    ['no tokens', [], 'MTL_TOKENS'],
    ['one token', [1], 'MTL_TOKENS'],
    ['an unknown token', [1, 40], 'MTL_TOKENS'],
    ['more than the context and one', new Array<number>(26).fill(1), 'MTL_CONTEXT'],
  ])('refuses %s', (_, tokens, code) => {
    const model = new AttentionModel();
    expect(() => scoreTokens({ model, tokens })).toThrow(expect.objectContaining({ code }));
    model.dispose();
  });
});

describe('perplexity', () => {
  it('scores every token but the first once, with the context that window and overlap give', async () => {
    const model = new AttentionModel();
    const settings = fc.integer({ min: 1, max: 24 }).chain((window) =>
      fc.record({
        window: fc.constant(window),
        overlap: fc.integer({ min: 0, max: window - 1 }),
        batchSize: fc.integer({ min: 1, max: 5 }),
        length: fc.integer({ min: 2, max: text.length }),
      }),
    );
    await fc.assert(
      fc.asyncProperty(settings, async ({ length, ...options }) => {
        const tokens = Int32Array.from(text.slice(0, length));
        const actual = await perplexity({ model, tokens, ...options });
        let expected = 0;
        let windowEnd = options.window;
        let windowStart = 0;
        for (let label = 1; label < length; label++) {
          if (label > windowEnd) {
            windowStart = windowEnd - options.overlap;
            windowEnd = windowStart + options.window;
          }
          expected -= scoreTokens({ model, tokens: tokens.slice(windowStart, label + 1) }).at(-1)!;
        }
        expect(actual.numScored).toBe(length - 1);
        // float32 losses in other groupings
        expect(Math.abs(actual.negativeLogLikelihood - expected)).toBeLessThan(1e-4);
        expect(actual.perplexity).toBeCloseTo(Math.exp(expected / (length - 1)), 3);
      }),
      { numRuns: 25 },
    );
    model.dispose();
  });

  it('leaves out given tokens', async () => {
    const model = new AttentionModel();
    const tokens = Int32Array.from(text.slice(0, 12));
    const losses = scoreTokens({ model, tokens });
    const kept = losses.filter((_, index) => ![3, 7].includes(index + 1));
    const { numScored, negativeLogLikelihood } = await perplexity({
      model,
      tokens,
      given: new Set([0, 3, 7, 40]),
    });
    expect(numScored).toBe(9);
    // float32 losses
    expect(negativeLogLikelihood).toBeCloseTo(-kept.reduce((sum, one) => sum + one), 4);
    await expect(
      perplexity({ model, tokens: tokens.subarray(0, 2), given: new Set([1]) }),
    ).rejects.toMatchObject({ code: 'MTL_TOKENS' });
    model.dispose();
  });

  it('reports progress and stops at an AbortSignal', async () => {
    const model = new AttentionModel();
    const progress: number[] = [];
    const controller = new AbortController();
    const options = {
      model,
      tokens: text,
      window: 10,
      onProgress: ({ numScored }: { numScored: number }) => progress.push(numScored),
    };
    await perplexity(options);
    expect(progress).toEqual([10, 20, 30, 40, 50, 60]);
    controller.abort();
    const run = (): Promise<Perplexity> => perplexity({ ...options, signal: controller.signal });
    await expect(run()).rejects.toMatchObject({ name: 'AbortError' });
    model.dispose();
  });

  it.each([
    ['a window beyond the context', { window: 25 }, 'MTL_PERPLEXITY'],
    ['an overlap of the whole window', { window: 8, overlap: 8 }, 'MTL_PERPLEXITY'],
    ['a batch of none', { batchSize: 0 }, 'MTL_PERPLEXITY'],
    ['one token', { tokens: [3] }, 'MTL_TOKENS'],
    ['unknown tokens', { tokens: [3, -1] }, 'MTL_TOKENS'],
  ])('refuses %s', async (_, wrong, code) => {
    const model = new AttentionModel();
    await expect(perplexity({ model, tokens: text, ...wrong })).rejects.toMatchObject({ code });
    model.dispose();
  });
});
