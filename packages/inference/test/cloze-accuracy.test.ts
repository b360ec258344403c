import { describe, expect, it } from 'vitest';
import { type ClozeExample, clozeAccuracy, generateAll } from '../src/index.js';
import { AttentionModel } from './support/attention-model.js';

/** Returns texts of different lengths with the model's own continuations. */
async function guessable(model: AttentionModel): Promise<ClozeExample[]> {
  const contexts = [3, 9, 1, 14, 6].map((length, row) =>
    Array.from({ length }, (_, index) => (index * 7 + row * 11 + 1) % 40),
  );
  const sampling = { temperature: 0 };
  const guesses = await generateAll({ model, prompts: contexts, maxNewTokens: 3, sampling });
  return contexts.map((context, row) => ({ context, target: guesses[row]!.tokens.slice(0, 1 + (row % 3)) }));
}

/** Returns the example with another token at a position of the target. */
function spoilt({ context, target }: ClozeExample, at: number): ClozeExample {
  return { context, target: Array.from(target, (token, index) => (index === at ? (token + 1) % 40 : token)) };
}

describe('clozeAccuracy', () => {
  it('counts a target only when every token of it is guessed, in batches of any size', async () => {
    const model = new AttentionModel();
    const right = await guessable(model);
    // lengths 1, 2, 3, 1, 2: wrong at the beginning, in the middle and at the end
    const examples = [right[0]!, spoilt(right[1]!, 1), spoilt(right[2]!, 1), spoilt(right[3]!, 0), right[4]!];
    for (const batchSize of [1, 2, 5]) {
      expect(await clozeAccuracy({ model, examples, batchSize })).toEqual({
        numExamples: 5,
        numCorrect: 2,
        accuracy: 0.4,
        numShortened: 0,
        correct: [true, false, false, false, true],
      });
    }
    expect((await clozeAccuracy({ model, examples: right })).accuracy).toBe(1);
    model.dispose();
  });

  it('leaves out the beginning of a text that does not fit, and reports it', async () => {
    const model = new AttentionModel({ maximumContext: 8 });
    const context = Array.from({ length: 30 }, (_, index) => (index * 7) % 40);
    const prompts = [context.slice(-6)];
    const sampling = { temperature: 0 };
    const [guess] = await generateAll({ model, prompts, maxNewTokens: 3, sampling });
    // the last of three tokens is never an input: 6 + 2 tokens fill the context
    const result = await clozeAccuracy({ model, examples: [{ context, target: guess!.tokens }] });
    expect(result).toMatchObject({ numCorrect: 1, numShortened: 1 });
    model.dispose();
  });

  it('reports progress and stops at an AbortSignal', async () => {
    const model = new AttentionModel();
    const examples = await guessable(model);
    const controller = new AbortController();
    const done: number[] = [];
    const running = clozeAccuracy({
      model,
      examples,
      batchSize: 2,
      signal: controller.signal,
      onProgress: ({ numDone }) => {
        done.push(numDone);
        if (numDone === 4) controller.abort(new Error('enough'));
      },
    });
    await expect(running).rejects.toThrow('enough');
    expect(done).toEqual([2, 4]);
    model.dispose();
  });

  it.each([
    ['no examples', { examples: [] }, 'MTL_CLOZE'],
    ['a batch of none', { batchSize: 0 }, 'MTL_CLOZE'],
    [
      'a target beyond the context',
      { examples: [{ context: [1], target: new Array<number>(25).fill(1) }] },
      'MTL_CLOZE',
    ],
    ['an empty context', { examples: [{ context: [], target: [1] }] }, 'MTL_TOKENS'],
    ['an empty target', { examples: [{ context: [1], target: [] }] }, 'MTL_TOKENS'],
    ['an unknown token', { examples: [{ context: [1], target: [40] }] }, 'MTL_TOKENS'],
  ])('refuses %s', async (_, options, code) => {
    const model = new AttentionModel();
    const examples = [{ context: [1], target: [2] }];
    await expect(clozeAccuracy({ model, examples, ...options })).rejects.toMatchObject({ code });
    model.dispose();
  });
});
