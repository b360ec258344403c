import { expect, it } from 'vitest';
import { tokenKinds, tokenListMetadata } from './token-list.js';

it('takes vocabularies that are larger than the stack', () => {
  const size = 200_000;
  const tokens = new Map(
    Array.from({ length: size }, (_, id) => [id, { text: `${id}`, kind: tokenKinds.normal }] as const),
  );
  const { 'tokenizer.ggml.tokens': listed } = tokenListMetadata(tokens, size);
  expect(listed!.value).toHaveLength(size);
  expect(() => tokenListMetadata(tokens, size - 1)).toThrow(/the id 199999, and the model has 199999 tokens/);
});
