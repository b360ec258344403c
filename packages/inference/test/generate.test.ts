import { numLiveTensors } from '@mtl/kernels';
import { describe, expect, it } from 'vitest';
import { type CausalLanguageModel, generate, generateAll, type Sampling } from '../src/index.js';
import { AttentionModel } from './support/attention-model.js';

const prompts = [[1, 2, 3], [7], [30, 4, 11, 5, 22, 39, 8]];

const samplings: Record<string, Sampling> = {
  greedy: { temperature: 0 },
  sampled: { temperature: 0.9 },
  'top-k and top-p': { temperature: 1.2, topK: 12, topP: 0.8 },
};

describe.each(['float32', 'bfloat16'] as const)('generate in %s', (dtype) => {
  it.each(Object.entries(samplings))(
    'gives with a cache what recomputation gives: %s',
    async (_, sampling) => {
      const results = [];
      for (const recomputes of [false, true]) {
        const model = new AttentionModel({ dtype, recomputes });
        results.push(await generateAll({ model, prompts, maxNewTokens: 15, sampling, seed: 9 }));
        model.dispose();
      }
      const [cached, recomputed] = results;
      expect(cached!.map(({ tokens }) => tokens)).toEqual(recomputed!.map(({ tokens }) => tokens));
      expect(new Set(cached!.flatMap(({ tokens }) => tokens)).size).toBeGreaterThan(5);
      cached!.forEach(({ logProbabilities }, index) => {
        logProbabilities.forEach((value, step) => {
          // sums in another order; in bfloat16 results of 8 bits may fall on the other side
          const tolerance = dtype === 'float32' ? 1e-5 : 5e-2;
          expect(Math.abs(value - recomputed![index]!.logProbabilities[step]!)).toBeLessThan(tolerance);
        });
      });
    },
  );
});

describe('generate', () => {
  it('continues a prompt the same way alone and among others', async () => {
    const model = new AttentionModel();
    const options = { model, maxNewTokens: 12, seed: 4, sampling: { temperature: 1 } };
    const together = await generateAll({ ...options, prompts });
    for (const [index, prompt] of prompts.entries()) {
      const [alone] = await generateAll({ ...options, prompts: [prompt], sampleNumbers: [index] });
      expect(alone!.tokens).toEqual(together[index]!.tokens);
    }
    const [again, other] = await Promise.all(
      [4, 5].map((seed) => generateAll({ ...options, prompts, seed })),
    );
    expect(again).toEqual(together);
    expect(other).not.toEqual(together);
    const [first, second] = await generateAll({
      ...options,
      prompts: [
        [1, 2],
        [1, 2],
      ],
    });
    expect(first!.tokens).not.toEqual(second!.tokens);
    model.dispose();
  });

  it('leaves log-probabilities out on request, with the same tokens', async () => {
    const model = new AttentionModel();
    const options = { model, prompts, maxNewTokens: 6, seed: 4, sampling: { temperature: 1 } };
    const complete = await generateAll(options);
    const without = await generateAll({ ...options, logProbabilities: false });
    expect(complete.map(({ logProbabilities }) => logProbabilities.length)).toEqual([6, 6, 6]);
    expect(without).toEqual(complete.map((one) => ({ ...one, logProbabilities: [] })));
    model.dispose();
  });

  it('computes equal prompts once, and continues each as if it were alone', async () => {
    const model = new AttentionModel();
    const options = { model, maxNewTokens: 9, seed: 4, sampling: { temperature: 1 } };
    const equal = [
      [1, 2, 3, 4, 5],
      [6, 7],
      [1, 2, 3, 4, 5],
      [1, 2, 3, 4, 5],
      [6, 7],
    ];
    const sequences: number[] = [];
    const { forward } = model;
    model.forward = (call) => {
      sequences.push(call.sequences.length);
      return forward.call(model, call);
    };
    const together = await generateAll({ ...options, prompts: equal });
    expect(sequences).toEqual([2, ...new Array<number>(8).fill(5)]);
    model.forward = forward;
    for (const [index, prompt] of equal.entries()) {
      const [alone] = await generateAll({ ...options, prompts: [prompt], sampleNumbers: [index] });
      expect(together[index]).toEqual(alone);
    }
    model.dispose();
  });

  it('draws independent tokens of the right frequencies', async () => {
    const probabilities = [0.4, 0.3, 0.2, 0.1];
    const logits = Float32Array.from(probabilities, Math.log);
    const numTokens = 4000;
    const model: CausalLanguageModel = {
      vocabularySize: 4,
      maximumContext: numTokens + 1,
      newCache: ({ batchSize, capacity }) => ({
        batchSize,
        capacity,
        lengths: [0],
        dispose: () => {},
      }),
      forward: () => logits,
      tokenLosses: () => new Float32Array(),
    };
    const [result] = await generateAll({ model, prompts: [[0]], maxNewTokens: numTokens, seed: 1 });
    const pairs = new Float64Array(16);
    for (let index = 0; index < numTokens; index += 2) {
      pairs[result!.tokens[index]! * 4 + result!.tokens[index + 1]!]! += 1;
    }
    const chiSquare = pairs.reduce((sum, count, index) => {
      const expected = (numTokens / 2) * probabilities[index >> 2]! * probabilities[index % 4]!;
      return sum + (count - expected) ** 2 / expected;
    }, 0);
    // 15 degrees of freedom: above 37.7 once in a thousand seeds
    expect(chiSquare).toBeLessThan(37.7);
  });

  it('ends each sequence at a stop token, after maxNewTokens, or at the end of the context', async () => {
    const model = new AttentionModel({ maximumContext: 9 });
    const options = { model, prompts, sampling: { temperature: 0 } };
    const whole = await generateAll({ ...options, maxNewTokens: 100 });
    // the last token is chosen from a full context
    expect(whole.map(({ tokens }) => tokens.length)).toEqual([7, 9, 3]);
    expect(whole.map(({ finishReason }) => finishReason)).toEqual(['context', 'context', 'context']);

    const short = await generateAll({ ...options, maxNewTokens: 4 });
    expect(short.map(({ finishReason }) => finishReason)).toEqual(['length', 'length', 'context']);
    expect(short.map(({ tokens }) => tokens)).toEqual(whole.map(({ tokens }) => tokens.slice(0, 4)));

    const stopToken = whole[0]!.tokens[2]!;
    const stopped = await generateAll({ ...options, maxNewTokens: 100, stopTokens: [stopToken] });
    const end = whole[0]!.tokens.indexOf(stopToken) + 1;
    expect(stopped[0]!.tokens).toEqual(whole[0]!.tokens.slice(0, end));
    expect(stopped[0]!.finishReason).toBe('stop');
    model.dispose();
  });

  it('slides a full context to its last half', async () => {
    const model = new AttentionModel({ maximumContext: 8 });
    const options = { model, sampling: { temperature: 0 } } as const;
    const prompt = [3, 9, 14, 2, 33];
    const [slid] = await generateAll({
      ...options,
      prompts: [prompt],
      maxNewTokens: 14,
      whenContextIsFull: 'slide',
    });
    expect(slid!.finishReason).toBe('length');
    // expected tokens: fill the context, then continue from the last four of all tokens
    const expected = [...prompt];
    let context = [...prompt];
    while (expected.length < prompt.length + 14) {
      const room = model.maximumContext + 1 - context.length;
      const [part] = await generateAll({ ...options, prompts: [context], maxNewTokens: room });
      expected.push(...part!.tokens);
      context = expected.slice(-4);
    }
    expect(slid!.tokens).toEqual(expected.slice(prompt.length, prompt.length + 14));
    model.dispose();
  });

  it('takes the end of a longer prompt when sliding', async () => {
    const model = new AttentionModel({ maximumContext: 8 });
    const long = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    const options = { model, maxNewTokens: 3, sampling: { temperature: 0 } } as const;
    const [slid] = await generateAll({ ...options, prompts: [long], whenContextIsFull: 'slide' });
    const [end] = await generateAll({ ...options, prompts: [long.slice(-4)] });
    expect(slid!.tokens).toEqual(end!.tokens);
    model.dispose();
  });

  it('yields tokens as they come and stops computing when the reader does, freeing everything', async () => {
    const before = numLiveTensors();
    const model = new AttentionModel();
    const inUse = numLiveTensors();
    const seen: number[] = [];
    for await (const { token } of generate({ model, prompts: [[1]], maxNewTokens: 20 })) {
      seen.push(token);
      if (seen.length === 3) break;
    }
    expect(model.numCalls).toBe(3);
    expect(numLiveTensors()).toBe(inUse);
    await generateAll({ model, prompts, maxNewTokens: 30, whenContextIsFull: 'slide' });
    expect(numLiveTensors()).toBe(inUse);
    model.dispose();
    expect(numLiveTensors()).toBe(before);
  });

  it('ends with the reason of an AbortSignal, freeing everything', async () => {
    const model = new AttentionModel();
    const inUse = numLiveTensors();
    const controller = new AbortController();
    const reason = new Error('enough');
    const tokens: number[] = [];
    const run = async (): Promise<void> => {
      const { signal } = controller;
      for await (const { token } of generate({ model, prompts: [[1]], maxNewTokens: 20, signal })) {
        tokens.push(token);
        if (tokens.length === 2) controller.abort(reason);
      }
    };
    await expect(run()).rejects.toBe(reason);
    expect(tokens.length).toBe(2);
    expect(numLiveTensors()).toBe(inUse);
    model.dispose();
  });

  it.each([
    ['an empty prompt', { prompts: [[]] }, 'MTL_TOKENS'],
    ['a token beyond the vocabulary', { prompts: [[1, 40]] }, 'MTL_TOKENS'],
    ['a token that is not whole', { prompts: [[0.5]] }, 'MTL_TOKENS'],
    ['a prompt longer than the context', { prompts: [new Array(25).fill(1)] }, 'MTL_CONTEXT'],
    ['no tokens to make', { maxNewTokens: 0 }, 'MTL_GENERATE'],
    ['a negative temperature', { sampling: { temperature: -1 } }, 'MTL_SAMPLING'],
    ['a temperature that is no number', { sampling: { temperature: Number.NaN } }, 'MTL_SAMPLING'],
    ['top-k of 0', { sampling: { topK: 0 } }, 'MTL_SAMPLING'],
    ['top-p above 1', { sampling: { topP: 1.1 } }, 'MTL_SAMPLING'],
    ['sample numbers of other prompts', { sampleNumbers: [1, 2] }, 'MTL_GENERATE'],
  ])('refuses %s', async (_, wrong, code) => {
    const model = new AttentionModel();
    const options = { model, prompts: [[1]], maxNewTokens: 5, ...wrong };
    await expect(generateAll(options)).rejects.toMatchObject({ code });
    expect(model.numCalls).toBe(0);
    model.dispose();
  });
});
