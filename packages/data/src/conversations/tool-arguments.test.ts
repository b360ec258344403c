import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ChatTemplate } from './chat-template.js';
import { readConversations } from './read-conversations.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-arguments-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function rendered(call: string, given: unknown, key = 'tool_calls'): Promise<string> {
  const calls = [{ id: 'c', type: 'function', function: { name: 'f', arguments: given } }];
  const assistant = {
    role: 'assistant',
    content: key === 'tool_calls' ? null : '',
    [key]: key === 'tool_calls' ? calls : calls[0]!.function,
  };
  const path = join(directory, 'chats.jsonl');
  writeFileSync(path, JSON.stringify({ messages: [{ role: 'user', content: 'q' }, assistant] }));
  const text = `{% for m in messages %}{% for call in m.tool_calls or [] %}${call}{% endfor %}{% if m.function_call %}{{ m.function_call | tojson }}{% endif %}{% endfor %}`;
  const template = new ChatTemplate({ name: 'chat.jinja', text });
  for await (const { messages, where } of readConversations(path))
    return template.render({ messages, where }).text;
  return '';
}

// OpenAI's files have the arguments of a call as a text of JSON
describe('arguments of calls that are a text of JSON', () => {
  const text = '{"b": 2.0, "a": [1, "x\\"y"], "n": 12345678901234567890}';

  it.each([
    ['an object in tojson', '{{ call.function.arguments | tojson }}', text],
    ['a call in tojson', '{{ call.function | tojson }}', `{"name": "f", "arguments": ${text}}`],
    [
      'the pairs of an object',
      '{% for k, v in call.function.arguments.items() %}{{ k }}={{ v }};{% endfor %}',
      "b=2.0;a=[1, 'x\"y'];n=12345678901234567890;",
    ],
  ])('become objects for a template that writes %s', async (_, call, expected) => {
    expect(await rendered(call, text)).toBe(expected);
  });

  it('are as they are for a template that takes texts', async () => {
    const call = '{% set a = call.function.arguments %}{{ a if a is string else a | tojson }}';
    const odd = '{"a":1,  "b":2}';
    expect(await rendered(call, odd)).toBe(odd);
    expect(await rendered(call, { a: 1 })).toBe('{"a": 1}');
  });

  it('stay texts where they are no object', async () => {
    for (const given of ['', 'plain', '[1]', '"x"', '{"a": ']) {
      expect(await rendered('{{ call.function.arguments | tojson }}', given)).toBe(JSON.stringify(given));
    }
  });

  it('become objects in calls of the former form', async () => {
    expect(await rendered('', '{"a": 1}', 'function_call')).toBe('{"name": "f", "arguments": {"a": 1}}');
  });
});
