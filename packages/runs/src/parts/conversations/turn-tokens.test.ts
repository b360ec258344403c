import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createTokenizer } from '@mtl/tokenizers';
import { afterAll, expect, it } from 'vitest';
import { listEndTokens } from './turn-tokens.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-turns-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

it('ends texts with the end of a document alone where generation_config.json cannot be read', async () => {
  const put = (name: string, text: string): void => writeFileSync(join(directory, name), text);
  const special = ['</s>', '<user>', '<assistant>'];
  const vocab = Object.fromEntries([...special, 'a'].map((token, id) => [token, id]));
  put(
    'tokenizer.json',
    JSON.stringify({
      model: { type: 'WordLevel', vocab, unk_token: 'a' },
      pre_tokenizer: { type: 'Whitespace' },
    }),
  );
  put('tokenizer_config.json', JSON.stringify({ additional_special_tokens: special, eos_token: '</s>' }));
  put('chat_template.jinja', "{% for m in messages %}{{ '<' + m.role + '>' + m.content }}{% endfor %}");
  const tokenizer = await createTokenizer({ type: 'HuggingFaceTokenizer', tokenizerModel: directory });
  expect(listEndTokens(tokenizer)).toEqual([0, 1]);
  put('generation_config.json', '{"eos_token_id": ');
  expect(listEndTokens(tokenizer)).toEqual([0]);
});
