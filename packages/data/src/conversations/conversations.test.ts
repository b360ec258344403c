import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ChatTemplate } from '@mtl/chat-templates';
import { createTokenizer } from '@mtl/tokenizers';
import * as fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { createBatchLoader } from '../loading/batch-loader.js';
import { assistantSpans } from './assistant-spans.js';
import { ConversationDataset } from './conversation-dataset.js';
import { packConversations, packRows } from './encode-conversations.js';
import { readChatTemplate } from './find-chat-template.js';
import { type ConversationDatasetsOptions, conversationDatasets } from './pack-conversation-files.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-conversations-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function written(name: string, text: string): string {
  const path = join(directory, name);
  writeFileSync(path, text);
  return path;
}

const template = new ChatTemplate({
  name: 'plain',
  text: '{% for m in messages %}{{ m.role[0] + m.content + eos_token }}{% endfor %}{% if add_generation_prompt %}a{% endif %}',
  specialTokens: { eos_token: '<|endoftext|>' },
});
const tokenizer = await createTokenizer({ type: 'ByteLevelTokenizer' });
const options = { template, tokenizer, sequenceLength: 16, seed: 1 };
const read = (path: string, others: Partial<ConversationDatasetsOptions> = {}) =>
  conversationDatasets({
    ...options,
    validationData: [],
    validationFraction: 0,
    long: 'refuse',
    trainData: [path],
    ...others,
  });
const turn = (question: string, answer: string): string =>
  JSON.stringify({
    messages: [
      { role: 'user', content: question },
      { role: 'assistant', content: answer },
    ],
  });
const decodeText = (tokens: ArrayLike<number>): string =>
  Array.from(tokens, (token) => (token === 256 ? '|' : tokenizer.decode([token]))).join('');

describe('conversations of a file', () => {
  it.each([
    ['\\n', '\n'],
    ['\\r\\n', '\r\n'],
  ])('become rows with the labels, loss, positions and document starts: lines end in %s', async (_, end) => {
    const path = written('two.jsonl', [turn('hi', 'you'), '', turn('a', 'b'), ''].join(end));
    const { train, counts } = await read(path);
    expect(counts).toMatchObject({ read: 2, tokens: 9 + 6, learnt: 4 + 2 });
    const dataset = new ConversationDataset({ ...train.packed, kind: 'conversations', numSamples: 2 });
    const { tokens, labels, lossMask, positionIds, keyStart } = dataset.sample(0);
    expect(decodeText(tokens.subarray(0, 13))).toBe('uhi|ayouua|ab');
    expect(decodeText(labels.subarray(0, 13))).toBe('hi|ayou|a|ab|');
    // the labels that count in the loss are the learnt text: the answer up to the end of its turn
    expect(decodeText(labels.filter((_, at) => lossMask[at] === 1))).toBe('you|b|');
    expect([...positionIds]).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 0, 1, 2]);
    expect([...keyStart!]).toEqual([...Array(8).fill(0), ...Array(5).fill(8), ...Array(3).fill(13)]);
    // this sample is empty and only fills up a batch
    expect(dataset.sample(1).lossMask.every((one) => one === 0)).toBe(true);
    expect([...dataset.sample(1).keyStart!]).toEqual(Array(16).fill(0));
  });

  it('are the same from a worker thread', async () => {
    const { train } = await read(written('worker.jsonl', `${turn('hi', 'you')}\n${turn('a', 'b')}\n`));
    const dataset = new ConversationDataset({ ...train.packed, kind: 'conversations', numSamples: 2 });
    const loader = createBatchLoader({ dataset, sampler: { kind: 'single', microBatchSize: 2 } });
    try {
      const { value } = await loader.next();
      for (const row of [0, 1]) {
        const alone = dataset.sample(row);
        for (const name of ['tokens', 'labels', 'lossMask', 'positionIds'] as const)
          expect(value![name].filter((_, at) => at % 2 === row)).toEqual(alone[name]);
        expect(value!.keyStart!.slice(16 * row, 16 * (row + 1))).toEqual(alone.keyStart);
      }
    } finally {
      await loader.close();
    }
  });

  it('may be a prompt and its completion; only the completion is learnt', async () => {
    const messages = (...said: string[]) =>
      said.map((content, index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content }));
    const lines = [
      { prompt: 'q', completion: 'x' },
      { prompt: messages('q', 'no', 'r'), completion: [{ role: 'assistant', content: 'x' }] },
    ];
    const { train } = await read(
      written('prompts.jsonl', lines.map((line) => JSON.stringify(line)).join('\n')),
    );
    const { tokens, isLearnt, offsets } = train.packed;
    const learnt = [0, 1].map((index) =>
      decodeText(
        tokens
          .subarray(offsets[index]!, offsets[index + 1]!)
          .filter((_, at) => isLearnt[offsets[index]! + at] === 1),
      ),
    );
    expect(learnt).toEqual(['x|', 'x|']);
  });

  it('may have marks of the template around answers; the marks of a prompt are not learnt', async () => {
    const marking = (text: string) =>
      new ChatTemplate({ ...template, text, specialTokens: { eos_token: '<|endoftext|>' } });
    const marked = marking(
      "{% for m in messages %}{% if m.role == 'assistant' %}a{% generation %}{{ m.content }}{% endgeneration -%}  .{% else %}{{ m.content }}{% endif %}{% endfor %}",
    );
    const line = {
      prompt: [...JSON.parse(turn('q', 'no')).messages, { role: 'user', content: 'r' }],
      completion: [{ role: 'assistant', content: 'yes' }],
    };
    const path = written('marked.jsonl', JSON.stringify(line));
    const { tokens, isLearnt } = (await read(path, { template: marked })).train.packed;
    expect(decodeText(tokens)).toBe('qano.rayes.');
    expect(decodeText(tokens.filter((_, at) => isLearnt[at] === 1))).toBe('yes');
    const refusal = (text: string, from = path) =>
      read(from, { template: marking(text) }).then(undefined, (error: Error) => error.message);
    const last =
      '{% for m in messages %}{% if loop.last %}{% generation %}{{ m.content }}{% endgeneration %}{% endif %}{% endfor %}';
    expect(await refusal(last)).toContain("marks 1 texts as the assistant's, of 2 messages");
    const nested = '{% generation %}a{% generation %}b{% endgeneration %}{% endgeneration %}';
    expect(await refusal(nested)).toContain('{% endgeneration %} do not match');
    expect(() => marking('a\n{% generation %}a')).toThrow(
      expect.objectContaining({
        code: 'MTL_CHAT_TEMPLATE',
        message: expect.stringMatching(/^plain, line 2: Unexpected end of template/) as string,
      }),
    );
    const mark = written('mark.jsonl', turn('a', 'b\uE0F0'));
    expect(await refusal(marked.text, mark)).toContain('U+E0F0');
  });

  // two line breaks are one token at the end of a text, but two tokens before a word
  it.each([
    [': ', ' the cat', 1],
    [':\n\n', 'the cat', 0],
  ])('learn the token that an answer begins in, behind %j', async (between, learnt, splitTokens) => {
    const path = written('inside.jsonl', turn('who', 'the cat'));
    const headed = new ChatTemplate({
      name: 'headed',
      text: `{% for m in messages %}{{ m.role + ${JSON.stringify(between)} + m.content }}{% endfor %}{% if add_generation_prompt %}{{ "assistant" + ${JSON.stringify(between)} }}{% endif %}`,
    });
    const gpt2 = await createTokenizer({ type: 'GPT2BPETokenizer' });
    const { counts, train } = await read(path, { template: headed, tokenizer: gpt2 });
    const { tokens, isLearnt } = train.packed;
    expect(gpt2.decode(tokens.filter((_, at) => isLearnt[at] === 1))).toBe(learnt);
    expect(counts.splitTokens).toBe(splitTokens);
  });

  it('give their tools to the template, as a list or its JSON', async () => {
    const counting = new ChatTemplate({
      name: 't',
      text: '{{ tools | length if tools else "none" }}{% for m in messages %}{{ m.content }}{% endfor %}',
    });
    const { messages } = JSON.parse(turn('q', 'x')) as object & { messages: unknown };
    const lines = [[{}, {}], '[{}]', null, ''].map((tools) => JSON.stringify({ messages, tools }));
    const { tokens } = (await read(written('tools.jsonl', lines.join('\n')), { template: counting })).train
      .packed;
    expect(decodeText(tokens)).toBe('2qx1qxnoneqxnoneqx');
  });

  it('are evaluated on from files of their own', async () => {
    const [one, other] = [written('one.jsonl', turn('q', 'x')), written('other.jsonl', turn('r', 'y'))];
    const { train, validation } = await read(one, { validationData: [other] });
    expect([train, validation!].map(({ packed }) => decodeText(packed.tokens))).toEqual(['uq|ax|', 'ur|ay|']);
  });

  it('are left out where nothing but their first token would be learnt', async () => {
    const bare = new ChatTemplate({ name: 't', text: '{% for m in messages %}{{ m.content }}{% endfor %}' });
    const path = written('first.jsonl', JSON.stringify({ messages: [{ role: 'assistant', content: 'x' }] }));
    await expect(read(path, { template: bare })).rejects.toThrow('no conversation is left of 1');
  });

  it.each([
    ['{"messages": [', 'line 1: is not JSON'],
    ['7', 'line 1: is not a JSON object'],
    ['[7]', 'line 1, element 1: is not a JSON object'],
    ['[]', 'no conversation'],
    [`${turn('a', 'b')}\n{"text": "a"}`, 'line 2: has "text"'],
    ['{"messages": []}', 'line 1: "messages" is not a list of messages'],
    ['{"messages": [{"role": "user"}]}', 'line 1: message 1 of "messages" has no "content"'],
    [
      '{"messages": [{"role": "user", "content": 5}]}',
      'line 1: message 1 of "messages" "content" is not a text',
    ],
    ['{"messages": [{"content": "a"}]}', 'line 1: message 1 of "messages" has no "role"'],
    ['{"messages": [{"role": "user", "content": "a"}]}', 'line 1: has no message of the assistant'],
    ['{"prompt": "a", "completion": []}', 'line 1: "prompt" and "completion" are not both'],
    [turn('long question', 'long answer'), 'line 1: has 28 tokens'],
    ['\n \n', 'no conversation'],
  ])('refuses %j with the line', async (text, message) => {
    await expect(read(written('wrong.jsonl', text))).rejects.toMatchObject({
      code: 'MTL_DATA_CONVERSATION',
      exitCode: 2,
      message: expect.stringContaining(message) as string,
    });
  });

  it('of more than a sample are cut or left out where that is asked for, and counted', async () => {
    const path = written(
      'long.jsonl',
      [turn('a', 'an answer that is cut'), turn('a', 'b'), turn('a question of 17 ', 'c')].join('\n'),
    );
    const cut = await read(path, { long: 'truncate' });
    expect(cut.counts).toMatchObject({ read: 3, truncated: 2, dropped: 0, withoutAnswer: 1 });
    expect(cut.train.numConversations).toBe(2);
    const dropped = await read(path, { long: 'drop' });
    expect(dropped.counts).toMatchObject({ read: 3, truncated: 0, dropped: 2, withoutAnswer: 0 });
    expect(dropped.train.numConversations).toBe(1);
  });

  it('are split into those to train and those to evaluate on, the same by the same seed', async () => {
    const lines = Array.from({ length: 20 }, (_, index) => turn(`${index}`, 'x'));
    const path = written('split.jsonl', lines.join('\n'));
    const [one, again, other] = [
      await read(path, { validationFraction: 0.2 }),
      await read(path, { validationFraction: 0.2 }),
      await read(path, { validationFraction: 0.2, seed: 2 }),
    ];
    expect([one.train.numConversations, one.validation!.numConversations]).toEqual([16, 4]);
    expect(again.validation!.packed.tokens).toEqual(one.validation!.packed.tokens);
    expect(other.validation!.packed.tokens).not.toEqual(one.validation!.packed.tokens);
    const held = decodeText(one.validation!.packed.tokens).match(/\d+/g)!;
    const trained = decodeText(one.train.packed.tokens).match(/\d+/g)!;
    expect([...held, ...trained].map(Number).sort((a, b) => a - b)).toEqual(lines.map((_, index) => index));
  });

  it('are not split where there is one', async () => {
    const one = read(written('one.jsonl', turn('a', 'b')), { validationFraction: 0.5 });
    await expect(one).rejects.toMatchObject({ code: 'MTL_DATA_CONVERSATION' });
  });

  it('names the conversation and the template where an answer has no place of its own', async () => {
    const forgetful = new ChatTemplate({
      name: 'forgetful.jinja',
      text: "{% for m in messages %}{% if loop.last or m.role == 'user' %}{{ m.content }}{% endif %}.{% endfor %}",
    });
    const messages = ['a', 'b', 'c', 'd'].map((content, index) => ({
      role: index % 2 === 0 ? 'user' : 'assistant',
      content,
    }));
    const path = written('forgetful.jsonl', `${turn('a', 'b')}\n${JSON.stringify({ messages })}`);
    await expect(read(path, { template: forgetful })).rejects.toMatchObject({
      code: 'MTL_DATA_CONVERSATION',
      message: expect.stringMatching(
        /forgetful\.jsonl, line 2: forgetful\.jinja: the text of the first 2 messages/,
      ) as string,
      remedy: expect.stringContaining('--chat-template') as string,
    });
    const thinking = new ChatTemplate({
      name: 'thinking.jinja',
      text: '{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<think>{% endif %}',
    });
    await expect(read(path, { template: thinking })).rejects.toThrow(
      'thinking.jinja: the text of the first 1 messages is not how the text with its answer begins',
    );
  });
});

describe('readChatTemplate', () => {
  it('finds the template of a folder, after the template of its options', () => {
    const tokenizerModel = join(directory, 'tokenizer.json');
    const type = 'HuggingFaceTokenizer' as const;
    const rendered = (chatTemplate?: string): string =>
      readChatTemplate({
        ...tokenizer,
        specialIds: new Set(),
        specialTokens: { bos_token: '<b>', eos_token: '<e>' },
        decode: () => '<d>',
        options: { type, tokenizerModel, chatTemplate },
      }).render({ messages: [], where: 'here' }).text;
    expect(() => rendered()).toThrow(expect.objectContaining({ code: 'MTL_CHAT_TEMPLATE' }));
    written('chat_template.json', '{"chat_template": "legacy {{ bos_token + eos_token }}"}');
    expect(rendered()).toBe('legacy <b><e>');
    const settings = (chat_template: unknown) =>
      written('tokenizer_config.json', JSON.stringify({ chat_template }));
    settings([
      { name: 'tool_use', template: 'tools' },
      { name: 'default', template: 'list {{ eos_token }}' },
    ]);
    expect(rendered()).toBe('list <e>');
    settings([
      { name: 'rag', template: '' },
      { name: 'tool_use', template: '' },
    ]);
    expect(() => rendered()).toThrow(/no template is called "default"/);
    settings('text {{ eos_token }}');
    expect(rendered()).toBe('text <e>');
    written('chat_template.jinja', 'file {{ eos_token }}');
    expect(rendered()).toBe('file <e>');
    expect(rendered(written('own.jinja', 'own {{ eos_token }}'))).toBe('own <e>');
    rmSync(join(directory, 'chat_template.jinja'));
    expect(() => rendered(written('broken.jinja', '{% if %}'))).toThrow(
      expect.objectContaining({
        code: 'MTL_CHAT_TEMPLATE',
        message: expect.stringContaining('broken.jinja') as string,
      }),
    );
  });
});

describe('a tokenizer with several chat templates', () => {
  const folder = join(directory, 'several');
  const tokenizerModel = join(folder, 'tokenizer.json');
  const makeTemplate = (): ChatTemplate =>
    readChatTemplate({
      ...tokenizer,
      specialIds: new Set(),
      specialTokens: { eos_token: '<e>' },
      decode: () => '<d>',
      options: { type: 'HuggingFaceTokenizer', tokenizerModel },
    });
  const renderedWith = (tools?: readonly unknown[]): string =>
    makeTemplate().render({ messages: [], tools, where: 'here' }).text;
  const put = (name: string, text: string): void => {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  };

  // as PreTrainedTokenizerBase.get_chat_template of transformers 5.18 chooses
  it('renders conversations that have functions with tool_use, and others with default', () => {
    const list = {
      tool_use: 'functions: {{ tools | length }}{{ eos_token }}',
      default: 'default',
      rag: 'rag',
    };
    const chat_template = Object.entries(list).map(([name, template]) => ({ name, template }));
    put('tokenizer_config.json', JSON.stringify({ chat_template }));
    expect([undefined, [], [{}]].map(renderedWith)).toEqual([
      'default',
      'functions: 0<e>',
      'functions: 1<e>',
    ]);
    // files override the list
    put('chat_template.jinja', 'file');
    expect([undefined, [{}]].map(renderedWith)).toEqual(['file', 'file']);
    put('additional_chat_templates/rag.jinja', 'rag');
    put('additional_chat_templates/tool_use.jinja', 'file for {{ tools | length }}{{ eos_token }}');
    put('additional_chat_templates/README.md', '{% if %}');
    expect([undefined, [{}]].map(renderedWith)).toEqual(['file', 'file for 1<e>']);
    rmSync(join(folder, 'chat_template.jinja'));
    expect(() => makeTemplate()).toThrow(
      expect.objectContaining({
        message: `${folder}: no template is called "default"`,
        expected: expect.stringContaining('it has rag, tool_use') as string,
      }),
    );
  });

  it('finds what the assistant says by the template that renders it', () => {
    const text = (start: string): string =>
      `{% for m in messages %}${start}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}`;
    put('chat_template.jinja', '{% for m in messages %}{{ m.content }}{% endfor %}');
    put('additional_chat_templates/tool_use.jinja', text('{{ tools | length }}: '));
    const conversation = { messages: [{ role: 'assistant', content: 'yes' }], numGiven: 0, where: 'here' };
    const spansWith = (tools?: readonly unknown[]) =>
      assistantSpans({
        conversation: { ...conversation, tools },
        template: makeTemplate(),
        endOfTurn: undefined,
      });
    expect(spansWith()).toEqual({ text: 'yes', spans: [{ start: 0, end: 3 }] });
    expect(spansWith([{}, {}])).toEqual({ text: '2: yes', spans: [{ start: 3, end: 6 }] });
    put('additional_chat_templates/tool_use.jinja', '{{ messages | length }}{% generation %}');
    expect(() => spansWith([{}])).toThrow(/additional_chat_templates\/tool_use\.jinja/);
  });
});

describe('packRows', () => {
  it('puts every piece into one row, and no row exceeds its capacity', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 20 }), { maxLength: 60 }), (lengths) => {
        const rows = packRows(lengths, 20);
        expect(rows.flat().sort((a, b) => a - b)).toEqual(lengths.map((_, index) => index));
        const filled = rows.map((row) => row.reduce((sum, piece) => sum + lengths[piece]!, 0));
        expect(Math.max(0, ...filled)).toBeLessThanOrEqual(20);
        // with best fit, at most one row is half empty: if there were two such rows, one row would hold both
        expect(filled.filter((length) => length <= 10).length).toBeLessThanOrEqual(1);
      }),
    );
  });

  it('keeps the tokens of each conversation', () => {
    const conversations = [5, 3, 9].map((length, index) => ({
      tokens: Int32Array.from({ length }, (_, at) => 10 * index + at),
      isLearnt: new Uint8Array(length).fill(1),
    }));
    const packed = packConversations(conversations, 8);
    expect([...packed.rowOffsets]).toEqual([0, 1, 3]);
    expect([...packed.order]).toEqual([2, 0, 1]);
    expect([...packed.tokens.subarray(packed.offsets[1], packed.offsets[2])]).toEqual([10, 11, 12]);
  });
});
