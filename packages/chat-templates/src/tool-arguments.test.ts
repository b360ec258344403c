import { describe, expect, it } from 'vitest';
import { ChatTemplate } from './chat-template.js';
import type { ChatMessage } from './message.js';
import { type JsonValue, parseJson } from './python/python-json.js';

/** Returns messages in the form in which they are read from JSON, with maps inside. */
const asRead = (messages: readonly unknown[]): readonly ChatMessage[] =>
  (parseJson(JSON.stringify(messages)) as readonly ReadonlyMap<string, JsonValue>[]).map(
    (message) => Object.fromEntries(message) as ChatMessage,
  );

/**
 * Renders the arguments of a call.
 *
 * @param options.also text that the template writes for each message, such as the tool's `result`
 */
function rendered(
  call: string,
  given: unknown,
  { key = 'tool_calls', also = '', result }: { key?: string; also?: string; result?: unknown } = {},
): string {
  const calls = [{ id: 'c', type: 'function', function: { name: 'f', arguments: given } }];
  const assistant = {
    role: 'assistant',
    content: key === 'tool_calls' ? null : '',
    [key]: key === 'tool_calls' ? calls : calls[0]!.function,
  };
  const results = result === undefined ? [] : [{ role: 'tool', content: result }];
  const messages = asRead([{ role: 'user', content: 'q' }, assistant, ...results]);
  const text = `{% for m in messages %}{% for call in m.tool_calls or [] %}${call}{% endfor %}{% if m.function_call %}{{ m.function_call | tojson }}{% endif %}${also}{% endfor %}`;
  const template = new ChatTemplate({ name: 'chat.jinja', text });
  return template.render({ messages, where: 'line 1' }).text;
}

// In OpenAI's format, the arguments of a call are a JSON string.
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
  ])('become objects for a template that writes %s', (_, call, expected) => {
    expect(rendered(call, text)).toBe(expected);
  });

  it('are as they are for a template that takes texts', () => {
    const call = '{% set a = call.function.arguments %}{{ a if a is string else a | tojson }}';
    const odd = '{"a":1,  "b":2}';
    expect(rendered(call, odd)).toBe(odd);
    expect(rendered(call, { a: 1 })).toBe('{"a": 1}');
  });

  it('stay texts where they are no object', () => {
    for (const given of ['', 'plain', '[1]', '"x"', '{"a": ']) {
      expect(rendered('{{ call.function.arguments | tojson }}', given)).toBe(JSON.stringify(given));
    }
  });

  it('become objects in calls of the former form', () => {
    expect(rendered('', '{"a": 1}', { key: 'function_call' })).toBe('{"name": "f", "arguments": {"a": 1}}');
  });

  it('stay texts where a message quotes the same text', () => {
    const also = "{% if m.role == 'tool' %}{{ m.content }}{% endif %}";
    const call = "{{ '<' + call.function.arguments + '>' }}";
    for (const given of ['{"city":"Paris"}', '{}']) {
      const result = JSON.stringify({ echo: given });
      expect(rendered(call, given, { also, result })).toBe(`<${given}>${result}`);
      expect(rendered('{{ call.function.arguments }}', given, { also, result })).toBe(given + result);
    }
  });

  it('become objects only in the calls that the template writes as JSON', () => {
    const given = '{"a":1}';
    const text =
      "{% for m in messages %}{% for c in m.tool_calls %}{{ c | tojson if loop.first else c.arguments + ';' }}{% endfor %}{% endfor %}";
    const call = { arguments: given };
    const { text: found } = new ChatTemplate({ name: 'chat.jinja', text }).render({
      messages: [{ role: 'assistant', content: '', tool_calls: [call, call] }],
      where: 'line 1',
    });
    expect(found).toBe(`{"arguments": {"a": 1}}${given};`);
  });

  it('are as they are in the error of a template that takes neither', () => {
    const call =
      "{{ raise_exception(('text ' if call.function.arguments is string else 'object ') + call.function.name) }}";
    expect(() => rendered(call, '{"a": 1}')).toThrow(/refuses it.*: text f/);
  });
});
