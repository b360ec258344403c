import { expect, it } from 'vitest';
import { splitContinuation } from './sample-prompts.js';

const words = ['▁To', '▁be', ',', '▁or'];

/** Decodes like SentencePiece, which omits the first space of a text. */
const tokenizer = {
  decode: (tokens: ArrayLike<number | bigint>) =>
    Array.from(tokens, Number)
      .map((token) => words[token]!)
      .join('')
      .replaceAll('▁', ' ')
      .replace(/^ /, ''),
};

it('keeps the space between a prompt and what follows it', () => {
  expect(splitContinuation(tokenizer, { prompt: [0], continuation: [1, 2, 3] })).toEqual({
    prompt: 'To',
    completion: ' be, or',
  });
});

it('gives what follows alone where the prompt decodes otherwise with it', () => {
  const joining = {
    decode: (tokens: ArrayLike<number | bigint>) => `<${Array.from(tokens, Number).join(' ')}>`,
  };
  expect(splitContinuation(joining, { prompt: [0], continuation: [1] })).toEqual({
    prompt: '<0>',
    completion: '<1>',
  });
});
