import { TextStream } from '@mtl/inference';
import { createTokenizer } from '@mtl/tokenizers';
import { describe, expect, it } from 'vitest';

const text = 'I 😀 👩‍👩‍👧‍👦, 漢字かな交じり。 e\u0301 o\u0323\u0302 हिन्दी 𠮷';

describe.each(['GPT2BPETokenizer', 'ByteLevelTokenizer'] as const)('text streamed by %s', async (type) => {
  const tokenizer = await createTokenizer({ type });
  const ids = Array.from(tokenizer.encode(text));

  it('comes in whole characters, wherever it begins', () => {
    for (let from = 0; from < ids.length; from++) {
      const rest = ids.slice(from);
      const stream = new TextStream((tokens) => tokenizer.decode(tokens));
      const chunks = rest.map((token) => stream.push(token));
      const whole = tokenizer.decode(rest);
      expect(chunks.join('') + stream.end()).toBe(whole);
      // Bytes of a character that began before are replaced, and only those.
      expect(chunks.join('').replace(/^\ufffd+/u, '')).not.toContain('\ufffd');
    }
  });

  it('ends with a replaced character where tokens end inside one', () => {
    for (let end = 0; end <= ids.length; end++) {
      const stream = new TextStream((tokens) => tokenizer.decode(tokens));
      const chunks = ids.slice(0, end).map((token) => stream.push(token));
      expect(chunks.join('')).not.toContain('\ufffd');
      expect(text.startsWith((chunks.join('') + stream.end()).replace(/\ufffd$/u, ''))).toBe(true);
    }
  });
});
