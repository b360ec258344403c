import { expect, it } from 'vitest';
import { checkTokenizerFits } from './training-model.js';

it('refuses tokens without rows in the model, and names how to give it rows', () => {
  const model = { vocabularySize: 100 };
  const check = (vocabularySize: number) => () =>
    checkTokenizerFits({ tokenizer: { name: 'HuggingFaceTokenizer', vocabularySize }, model, from: 'hf' });
  expect(check(100)).not.toThrow();
  expect(check(103)).toThrow(
    expect.objectContaining({
      code: 'MTL_TOKENIZER_MODEL',
      message: 'the HuggingFaceTokenizer has 103 tokens, the model of hf knows only 100',
      // the remedy's `none of them` is correct only if hf has a tokenizer; otherwise, a run without these
      // flags would also be rejected
      remedy: expect.stringMatching(
        /^pass the flags of that tokenizer \(.+\), or none of them where hf has its tokenizer; .+resize_token_embeddings\(103\)/,
      ),
    }),
  );
});
