import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { type ChatMessage, ChatTemplate } from '@mtl/chat-templates';
import { createTokenizer } from '@mtl/tokenizers';
import { afterAll, describe, expect, it } from 'vitest';
import { assistantSpans } from './assistant-spans.js';
import { tokensInSpans } from './chat-tokens.js';
import { endOfTurn } from './end-of-turn.js';

interface FixtureConversation {
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly unknown[];
  readonly error?: string;
  readonly text: string;
  readonly prompt: string;
  readonly ids: readonly number[];
  /** Positions of the tokens that the assistant learns. */
  readonly learnt: readonly number[];
}

const fixture = (name: string) => {
  const bytes = readFileSync(new URL(`../../fixtures/${name}`, import.meta.url));
  return JSON.parse((name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString()) as unknown;
};

// Fixtures: tooling/fixtures/make-chat-template-fixtures.py and make-llama-tokenizer-fixtures.py.
const { templates, cases } = fixture('chat-templates.json') as {
  readonly templates: Readonly<Record<string, string>>;
  readonly cases: readonly {
    readonly template: string;
    readonly tokenizer: string;
    readonly special: Readonly<Record<string, string>>;
    readonly conversations: readonly FixtureConversation[];
  }[];
};
const tokenizers = (
  fixture('../../tokenizers/fixtures/llama-tokenizers.json.gz') as {
    readonly cases: readonly { name: string; json: object }[];
  }
).cases;

const directory = mkdtempSync(join(tmpdir(), 'mtl-chat-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const where = 'chats.jsonl, line 1';
const withoutMarks = (template: string): string =>
  template.replaceAll(
    /\{%(-?)\s*(end)?generation\s*(-?)%\}/g,
    (_, before, __, after) => `{%${before} if true %}{% endif ${after}%}`,
  );

describe.each(cases)('the template "$template" with the tokenizer of $tokenizer', async (one) => {
  const tokenizerModel = join(directory, `${one.template} ${one.tokenizer}.json`);
  const { json } = tokenizers.find(({ name }) => name === one.tokenizer)!;
  writeFileSync(tokenizerModel, JSON.stringify(json));
  const eodToken = one.special.eos_token;
  const tokenizer = await createTokenizer({ type: 'HuggingFaceTokenizer', tokenizerModel, eodToken });
  const text = templates[one.template]!;
  const options = { name: one.template, specialTokens: one.special };
  const marked = new ChatTemplate({ ...options, text });
  const unmarked = new ChatTemplate({ ...options, text: withoutMarks(text) });
  const usable = one.conversations.filter(({ error }) => error === undefined);

  it('renders as the transformers library', () => {
    expect(usable.length).toBeGreaterThan(2);
    for (const { messages, tools, text, prompt } of usable) {
      expect(marked.render({ messages, tools, where }).text).toBe(text);
      const given = { messages: messages.slice(0, -1), tools, addsGenerationPrompt: true, where };
      expect(marked.render(given).text).toBe(prompt);
      expect(unmarked.render(given).text).toBe(prompt);
    }
  });

  it("finds the assistant's tokens as the transformers library, with marks in the template and without", () => {
    const end = endOfTurn(unmarked, tokenizer)?.text;
    expect(end).toBe(one.template === 'plain' ? undefined : one.special.eos_token);
    for (const { messages, tools, ids, learnt } of usable) {
      const conversation = { messages, tools, numGiven: 0, where };
      for (const template of [marked, unmarked]) {
        const spans = assistantSpans({ conversation, template, endOfTurn: end });
        const { tokens, isInSpan } = tokensInSpans(spans, tokenizer);
        expect(Array.from(tokens)).toEqual(ids);
        expect([...isInSpan.keys()].filter((place) => isInSpan[place] === 1)).toEqual(learnt);
      }
    }
  });

  it('refuses what the template refuses, with its words and the line', () => {
    for (const { messages, error } of one.conversations.filter(({ error }) => error !== undefined)) {
      expect(() => marked.render({ messages, where })).toThrow(
        expect.objectContaining({
          code: 'MTL_CHAT_TEMPLATE',
          message: `${where}: ${one.template} refuses it: ${error}`,
        }),
      );
    }
  });
});
