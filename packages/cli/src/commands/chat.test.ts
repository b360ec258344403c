import { PassThrough } from 'node:stream';
import { ChatTemplate } from '@mtl/chat-templates';
import { createTokenizer } from '@mtl/tokenizers';
import { describe, expect, it } from 'vitest';
import { ChatSession, type ChatSessionOptions, converse } from './chat.js';

const tokenizer = await createTokenizer({ type: 'ByteLevelTokenizer' });
const template = new ChatTemplate({
  name: 'template',
  text: '{% for m in messages %}{{ m.role[0] + m.content + eos_token }}{% endfor %}{% if add_generation_prompt %}a{% endif %}',
  specialTokens: { eos_token: '<|endoftext|>' },
});

/**
 * Makes a model that answers every prompt with `text`. `prompts` collects the prompts that the model
 * receives.
 */
function modelThatSays(text: string, maximumContext = 64) {
  const prompts: string[] = [];
  const tokens = [...tokenizer.encode(text), tokenizer.eod];
  let at = 0;
  const model = {
    maximumContext,
    vocabularySize: 257,
    newCache: () => ({ lengths: [0], dispose: () => {} }),
    forward: ({
      cache,
      sequences,
    }: {
      cache: { lengths: number[] };
      sequences: readonly { tokens: Int32Array }[];
    }) => {
      const given = sequences[0]!.tokens;
      if (given.length > 1) {
        at = 0;
        prompts.push(
          Array.from(given, (token) => (token === 256 ? '|' : String.fromCharCode(token))).join(''),
        );
      }
      cache.lengths[0]! += given.length;
      const logits = new Float32Array(257);
      logits[tokens[at++]!] = 100;
      return logits;
    },
  };
  return { model: model as unknown as ChatSessionOptions['model'], prompts };
}

function openSession(model: ChatSessionOptions['model'], others: Partial<ChatSessionOptions> = {}) {
  const notices: string[] = [];
  const session = new ChatSession({
    model,
    tokenizer,
    template,
    stopTokens: [256],
    sampling: { temperature: 0 },
    maxNewTokens: 8,
    seed: 0,
    onNotice: (text) => notices.push(text),
    ...others,
  });
  return { session, notices };
}

async function collectAnswer(session: ChatSession, text: string, signal = new AbortController().signal) {
  let answer = '';
  for await (const part of session.say(text, signal)) answer += part;
  return answer;
}

describe('ChatSession', () => {
  it('gives the model what was said before, and keeps the answer without its end', async () => {
    const { model, prompts } = modelThatSays('öl');
    const { session } = openSession(model, { system: 'S' });
    expect(await collectAnswer(session, 'one')).toBe('öl');
    expect(await collectAnswer(session, 'two')).toBe('öl');
    expect(prompts).toEqual(['sS|uone|a', 'sS|uone|aÃ¶l|utwo|a']);
  });

  it('neither shows nor keeps the token that ends an answer', async () => {
    const { model, prompts } = modelThatSays('yes!');
    const { session } = openSession(model, { stopTokens: ['!'.charCodeAt(0)] });
    expect(await collectAnswer(session, 'one')).toBe('yes');
    await collectAnswer(session, 'two');
    expect(prompts[1]).toBe('uone|ayes|utwo|a');
  });

  it('drops the oldest turns where the conversation outgrows the context, and tells', async () => {
    const { model, prompts } = modelThatSays('yes', 40);
    const { session, notices } = openSession(model, { system: 'S' });
    for (const text of ['question 1', 'question 2', 'question 3']) await collectAnswer(session, text);
    expect(prompts.at(-1)).toBe('sS|uquestion 3|a');
    expect(notices.join()).toMatch(/^the first \d+ messages no longer fit into 40 tokens: dropped/);
  });

  it('refuses a message that alone fills the context, and goes on', async () => {
    const { model, prompts } = modelThatSays('yes', 40);
    const { session } = openSession(model);
    await expect(collectAnswer(session, 'x'.repeat(40))).rejects.toMatchObject({
      code: 'MTL_CONTEXT',
      exitCode: 2,
    });
    await collectAnswer(session, 'short');
    expect(prompts).toEqual(['ushort|a']);
  });

  it('keeps an answer that is stopped as far as it came', async () => {
    const { model, prompts } = modelThatSays('a long answer');
    const { session } = openSession(model, { maxNewTokens: 20 });
    const controller = new AbortController();
    const parts: string[] = [];
    await expect(async () => {
      for await (const part of session.say('one', controller.signal)) {
        parts.push(part);
        if (parts.length === 3) controller.abort();
      }
    }).rejects.toThrow();
    await collectAnswer(session, 'two');
    expect(parts.join('')).toBe('a l');
    expect(prompts[1]).toBe('uone|aa l|utwo|a');
  });
});

describe('converse', () => {
  it('answers line by line, and an error of a turn does not end it', async () => {
    const { model } = modelThatSays('yes', 40);
    const { session } = openSession(model);
    const [input, output, notices] = [new PassThrough(), new PassThrough(), [] as string[]];
    const ended = converse({ session, input, output, onNotice: (text) => notices.push(text) });
    input.end(`one\n\n${'x'.repeat(40)}\ntwo\n`);
    expect(await ended).toBe(0);
    expect(String(output.read())).toBe('yes\nyes\n');
    expect(notices.join()).toContain('error[MTL_CONTEXT]');
  });

  it('stops an answer at the first SIGINT and ends at the second', async () => {
    const session = {
      async *say(_: string, signal: AbortSignal) {
        yield 'so ';
        process.emit('SIGINT');
        signal.throwIfAborted();
      },
    };
    const [input, output] = [new PassThrough(), new PassThrough()];
    const ended = converse({ session, input, output, onNotice: () => {} });
    input.write('one\n');
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(String(output.read())).toBe('so \n');
    process.emit('SIGINT');
    expect(await ended).toBe(130);
  });

  it('ends at two SIGINTs in one answer, whatever lines wait', async () => {
    const said: string[] = [];
    const session = {
      async *say(text: string, signal: AbortSignal) {
        said.push(text);
        process.emit('SIGINT');
        process.emit('SIGINT');
        signal.throwIfAborted();
        yield '';
      },
    };
    const [input, output] = [new PassThrough(), new PassThrough()];
    const ended = converse({ session, input, output, onNotice: () => {} });
    input.end('one\ntwo\n');
    expect(await ended).toBe(130);
    expect(said).toEqual(['one']);
  });

  it('ends with an error that is not of a message, and leaves SIGINT to others', async () => {
    const numBefore = process.listenerCount('SIGINT');
    const session = {
      // biome-ignore lint/correctness/useYield: the generator throws before its first yield
      async *say(): AsyncGenerator<string, void, undefined> {
        throw new Error('damaged');
      },
    };
    const [input, output] = [new PassThrough(), new PassThrough()];
    const ended = converse({ session, input, output, onNotice: () => {} });
    input.end('one\n');
    await expect(ended).rejects.toThrow('damaged');
    expect(process.listenerCount('SIGINT')).toBe(numBefore);
  });
});
