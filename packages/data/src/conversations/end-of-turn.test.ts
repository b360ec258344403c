import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ChatTemplate } from '@mtl/chat-templates';
import { createTokenizer, trainByteLevelBpe } from '@mtl/tokenizers';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { endOfTurn } from './end-of-turn.js';
import { conversationDatasets } from './pack-conversation-files.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-turns-'));
const generation = join(directory, 'generation_config.json');
afterAll(() => rmSync(directory, { recursive: true, force: true }));
afterEach(() => rmSync(generation, { force: true }));

const put = (name: string, value: object): void =>
  writeFileSync(join(directory, name), JSON.stringify(value));
const bytes = await trainByteLevelBpe({ texts: ['user assistant'], vocabularySize: 260, minFrequency: 1 });
put('tokenizer.json', { ...bytes, added_tokens: [] });
const special = ['<|user|>', '<|assistant|>', '<|observation|>', '</s>'];
put('tokenizer_config.json', { additional_special_tokens: special, eos_token: '</s>' });
const tokenizer = await createTokenizer({ type: 'HuggingFaceTokenizer', tokenizerModel: directory });
const [user, , observation, end] = special.map((token) => tokenizer.tokenIds!.get(token)!);

/** Makes a template whose turns begin with a marker but do not end with a marker. */
const template = (marker: string): ChatTemplate =>
  new ChatTemplate({
    name: 'chat.jinja',
    text: `{% for m in messages %}{{ ${marker} + '\\n' + m.content + '\\n' }}{% endfor %}{% if add_generation_prompt %}{% set m = {'role': 'assistant'} %}{{ ${marker} + '\\n' }}{% endif %}`,
  });
const marked = template(`('<|observation|>' if m.role == 'tool' else '<|' + m.role + '|>')`);
const plain = template(`'### ' + m.role`);

async function learnt(chat: ChatTemplate, roles: readonly string[]) {
  const messages = roles.map((role, index) => ({ role, content: `${role} ${index}` }));
  const path = join(directory, 'chats.jsonl');
  writeFileSync(path, JSON.stringify({ messages }));
  const { train, counts } = await conversationDatasets({
    template: chat,
    tokenizer,
    sequenceLength: 256,
    seed: 1,
    long: 'refuse',
    trainData: [path],
    validationData: [],
    validationFraction: 0,
  });
  const { tokens, isLearnt } = train.packed;
  return {
    text: tokenizer.decode(tokens),
    learnt: tokenizer.decode(tokens.filter((_, index) => isLearnt[index] === 1)),
    withoutEnd: counts.withoutEnd,
  };
}

describe('answers that the marker of the next turn ends', () => {
  const roles = ['user', 'assistant', 'user', 'assistant'];

  it('are learnt with it, the last one too', async () => {
    expect(await learnt(marked, roles)).toEqual({
      text: '<|user|>\nuser 0\n<|assistant|>\nassistant 1\n<|user|>\nuser 2\n<|assistant|>\nassistant 3\n<|user|>',
      learnt: 'assistant 1\n<|user|>assistant 3\n<|user|>',
      withoutEnd: 0,
    });
    expect(endOfTurn(marked, tokenizer)).toMatchObject({
      token: user,
      unwritten: { markers: [{ token: user }, { token: observation }] },
    });
  });

  it('are learnt with the marker that is there, before the result of a function', async () => {
    const found = await learnt(marked, ['user', 'assistant', 'tool', 'assistant', 'user']);
    expect(found.learnt).toBe('assistant 1\n<|observation|>assistant 3\n<|user|>');
    expect(found.text.endsWith('user 4\n')).toBe(true);
  });

  it('are learnt with the end of a text where generation_config.json has that alone', async () => {
    put('generation_config.json', { eos_token_id: end! });
    expect((await learnt(marked, roles)).learnt).toBe('assistant 1\nassistant 3\n</s>');
    put('generation_config.json', { eos_token_id: [end!, user!] });
    expect((await learnt(marked, roles)).learnt).toBe('assistant 1\n<|user|>assistant 3\n<|user|>');
  });

  it('need a generation_config.json that is an object', () => {
    put('generation_config.json', []);
    expect(() => endOfTurn(marked, tokenizer)).toThrow(
      expect.objectContaining({
        code: 'MTL_DATA_TOKENIZER',
        message: expect.stringContaining('JSON object'),
      }),
    );
  });

  it('are counted where nothing ends them', async () => {
    const found = await learnt(plain, roles);
    expect(found).toMatchObject({ learnt: 'assistant 1\nassistant 3\n', withoutEnd: 1 });
    expect(endOfTurn(plain, tokenizer)).toBeUndefined();
    put('generation_config.json', { eos_token_id: end! });
    expect(await learnt(plain, roles)).toMatchObject({
      learnt: 'assistant 1\nassistant 3\n</s>',
      withoutEnd: 0,
    });
  });

  it('end as the template has it where it writes an end', async () => {
    const written = template(`('</s>' if not loop.first and m.role == 'user' else '') + '### ' + m.role`);
    const own = new ChatTemplate({
      name: 'own.jinja',
      text: "{% for m in messages %}### {{ m.role + '\\n' + m.content }} [end]</s>\n{% endfor %}{% if add_generation_prompt %}### assistant\n{% endif %}",
    });
    put('generation_config.json', { eos_token_id: end! });
    expect((await learnt(own, roles)).learnt).toBe('assistant 1 [end]</s>\nassistant 3 [end]</s>\n');
    expect(endOfTurn(written, tokenizer)?.token).toBe(end);
  });
});
