import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ChatTemplate } from '@mtl/chat-templates';
import { afterAll, describe, expect, it } from 'vitest';
import { assistantSpans } from './assistant-spans.js';
import { readConversations } from './read-conversations.js';

const directory = mkdtempSync(join(tmpdir(), 'mtl-answers-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function readLine(line: string) {
  const path = join(directory, 'chats.jsonl');
  writeFileSync(path, line);
  const conversations = [];
  for await (const one of readConversations(path)) conversations.push(one);
  return conversations[0]!;
}

const template = (text: string): ChatTemplate => new ChatTemplate({ name: 'chat.jinja', text });

/** Returns the parts of a line's rendered text that the assistant learns. */
async function learnt(line: object, text: string, endOfTurn = '<e>'): Promise<readonly string[]> {
  const conversation = await readLine(JSON.stringify(line));
  const { text: whole, spans } = assistantSpans({ conversation, template: template(text), endOfTurn });
  return spans.map(({ start, end }) => whole.slice(start, end));
}

const said = (role: string, content: string | null, others: object = {}) => ({ role, content, ...others });

// the template keeps reasoning only after the last question
const reasoning = `{%- set ns = namespace(last=0) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}
    {%- set content = m.content if m.content is string else '' %}
    {%- if m.role == 'assistant' %}
        {%- set thought = m.reasoning_content if m.reasoning_content is string else '' %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<s>assistant\\n' }}
        {%- if loop.index0 > ns.last and (loop.last or thought) %}{{- '<think>\\n' + thought + '\\n</think>\\n\\n' }}{%- endif %}
        {{- content }}
        {%- for call in m.tool_calls or [] %}{{- '\\n<call>' + (call | tojson) + '</call>' }}{% endfor %}
        {{- '<e>\\n' }}
    {%- else %}{{- '<s>' + m.role + '\\n' + content + '<e>\\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<s>assistant\\n' }}{% endif %}`;

describe('an answer that is written otherwise when others follow', () => {
  it('is learnt as the whole conversation has it', async () => {
    const messages = [
      said('user', 'q'),
      said('assistant', '<think>\nhm\n</think>\n\na 1'),
      said('user', 'q <s>assistant\n'),
      said('assistant', '        return 2\n', { reasoning_content: 'so' }),
      said('user', 'q'),
      said('assistant', 'a 3'),
    ];
    expect(await learnt({ messages }, reasoning)).toEqual([
      'a 1<e>',
      '        return 2\n<e>',
      '<think>\n\n</think>\n\na 3<e>',
    ]);
  });

  it('has its calls of functions, also without a content', async () => {
    const call = { name: 'f', arguments: { text: 'a<e>b', id: 5 } };
    const messages = [
      said('user', 'q'),
      said('assistant', null, { tool_calls: [call] }),
      said('tool', 'r'),
      said('assistant', 'first', { tool_calls: [call], reasoning_content: 'hm' }),
      said('tool', 'r'),
      said('assistant', 'a'),
      said('user', 'q'),
      said('assistant', 'a'),
    ];
    const called = '\n<call>{"name": "f", "arguments": {"text": "a<e>b", "id": 5}}</call><e>';
    expect(await learnt({ messages }, reasoning)).toEqual([
      called,
      `first${called}`,
      'a<e>',
      '<think>\n\n</think>\n\na<e>',
    ]);
  });

  it('begins where its header ends as the generation prompt does not', async () => {
    // the prompt opens a thought, which no answer in the files contains
    const opening = `{% for m in messages %}{{ '<' + m.role + '>' + m.content.split('</think>')[-1] + '<e>' }}{% endfor %}{% if add_generation_prompt %}{{ '<assistant><think>\\n' }}{% endif %}`;
    const messages = [
      said('user', 'q'),
      said('assistant', 'hm</think>a'),
      said('user', 'q'),
      said('assistant', 'b'),
    ];
    expect(await learnt({ messages }, opening)).toEqual(['a<e>', 'b<e>']);
  });

  it.each([
    [
      'leaves it out',
      "{% for m in messages %}{% if loop.last or m.role == 'user' %}{{ m.content }}{% endif %}.{% endfor %}",
    ],
    [
      'puts another header before it',
      "{% for m in messages %}{{ '[' + m.role + ']' + m.content }}{% endfor %}{% if add_generation_prompt %}>{% endif %}",
    ],
  ])('is refused where the template %s', async (_, text) => {
    const messages = [said('user', 'q'), said('assistant', 'a'), said('user', 'r'), said('assistant', 'b')];
    await expect(learnt({ messages }, text)).rejects.toMatchObject({ code: 'MTL_DATA_CONVERSATION' });
  });
});

describe('a message that is masked', () => {
  const messages = [
    said('user', 'q'),
    said('assistant', 'a', { weight: 0 }),
    said('user', 'r'),
    said('assistant', 'b', { train: false }),
    said('user', 's'),
    said('assistant', 'c', { weight: 1, train: true }),
  ];
  const plain =
    "{% for m in messages %}{{ m.role[0] + m.content + '<e>' }}{% endfor %}{% if add_generation_prompt %}a{% endif %}";
  const marked =
    "{% for m in messages %}{% if m.role == 'assistant' %}a{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";

  it('is not learnt, with marks in the template and without', async () => {
    expect(await learnt({ messages }, plain)).toEqual(['c<e>']);
    expect(await learnt({ messages }, marked)).toEqual(['c']);
    const spelt = JSON.stringify({ messages }).replace('"weight":0', '"weight":0.0');
    const conversation = await readLine(spelt);
    expect(assistantSpans({ conversation, template: template(plain), endOfTurn: '<e>' }).spans).toHaveLength(
      1,
    );
  });

  it.each([
    ['"weight": 0.5', 'message 2 of "messages" has a "weight" that is neither 0 nor 1'],
    ['"train": "no"', 'message 2 of "messages" has a "train" that is neither true nor false'],
    ['"weight": 0', 'has no message of the assistant to learn'],
  ])('has no other value than its kind: %s', async (field, message) => {
    const line = `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", ${field}}]}`;
    await expect(readLine(line)).rejects.toMatchObject({
      code: 'MTL_DATA_CONVERSATION',
      message: expect.stringContaining(message) as string,
    });
  });
});

describe('what a line has', () => {
  it('reaches the template as it is spelt, in the order of its keys', async () => {
    const args =
      '{"id": 1610521604143693812, "x": 2.0, "y": 1e-07, "10": 1, "9": -0.0, "big": 1E22, "__proto__": null}';
    const call = `{"role": "assistant", "content": null, "tool_calls": [{"arguments": ${args}}]}`;
    const tools = JSON.stringify('[{"10": 1.0, "9": 123456789012345678901}]');
    const {
      messages,
      tools: read,
      where,
    } = await readLine(`{"messages": [{"role": "user", "content": "q"}, ${call}], "tools": ${tools}}`);
    const text =
      '{{ messages[1].tool_calls[0].arguments | tojson }} {{ messages[1].tool_calls[0].arguments.x }} {{ tools }}';
    // the expected strings are the strings that Python's json.loads and Jinja produce
    expect(template(text).render({ messages, tools: read, where }).text).toBe(
      '{"id": 1610521604143693812, "x": 2.0, "y": 1e-07, "10": 1, "9": -0.0, "big": 1e+22, "__proto__": null} 2.0 ' +
        "[{'10': 1.0, '9': 123456789012345678901}]",
    );
  });

  const parts = (...content: readonly object[]) => [{ role: 'user', content }];
  const text = (value: string) => ({ type: 'text', text: value });
  const where = 'chats.jsonl, line 1';

  it('may be texts in parts, which are one text for a template that takes no lists', () => {
    const [one, two] = [text('a '), text('b')];
    const plain = template("{% for m in messages %}{{ m.role + ': ' + m.content }}{% endfor %}");
    expect(plain.render({ messages: parts(one, two), where }).text).toBe('user: a b');
    const silent = template('{% for m in messages %}{{ m.content if m.content is string }}{% endfor %}');
    expect(silent.render({ messages: parts(one, two), where }).text).toBe('a b');
    const printing = template('{% for m in messages %}{{ m.content }}{% endfor %}');
    expect(printing.render({ messages: parts(one, two), where }).text).toBe('a b');
    const taking = template(
      '{% for m in messages %}{% for part in m.content %}[{{ part.text or part.type }}]{% endfor %}{% endfor %}',
    );
    expect(taking.render({ messages: parts(one, { type: 'image' }, two), where }).text).toBe(
      '[a ][image][b]',
    );
  });

  it.each([
    '{{ messages[0].content }}',
    '{{ messages[0].content[0] }}',
    "{{ '' + messages[0].content }}",
    '-',
  ])('is refused where other parts have no text in %s', (source) => {
    expect(() => template(source).render({ messages: parts({ type: 'image' }, text('a')), where })).toThrow(
      expect.objectContaining({ code: 'MTL_CHAT_TEMPLATE' }),
    );
  });
});

describe('a template that would not end', () => {
  const endless = [
    '{{ range(1000000000) }}',
    "{{ 'x' * 10 ** 12 }}",
    '{{ [1] * 10 ** 12 }}',
    '{{ 10 ** (10 ** 7) }}',
    "{{ 'x'.center(10 ** 12) }}",
    "{{ 'x' | center(10 ** 12) }}",
    "{{ '%999999999999d' % 1 }}",
    "{{ '%.999999999999f' % 1.5 }}",
    "{{ '{:999999999999}'.format(1) }}",
    "{{ 'a\\nb' | indent(10 ** 12) }}",
    '{{ [1] | tojson(indent=10 ** 12) }}',
    "{{ 'a\\tb'.expandtabs(10 ** 12) }}",
    '{{ [1] | batch(10 ** 12, 0) | list }}',
    '{{ [1] | slice(10 ** 12) | list }}',
    "{{ '1'.zfill(10 ** 12) }}",
    '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}',
    '{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}',
    '{% set ns = namespace(x=1) %}{% set ns.x = ns %}{{ ns }}',
    '{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}',
    "{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s | length }}",
    "{% set ns = namespace(s='x' * 1000000) %}{% for i in range(100) %}{% set ns.s = ns.s.replace('x', 'xx') %}{% endfor %}",
    '{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = ns.l + ns.l %}{% endfor %}',
    '{% set ns = namespace(l=[1]) %}{% for i in range(100) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}',
    '{% set ns = namespace(n=3) %}{% for i in range(100) %}{% set ns.n = ns.n * ns.n %}{% endfor %}',
    `{{ ${'('.repeat(10000)}1${')'.repeat(10000)} }}`,
    `{{ ${'1 + '.repeat(20000)}1 }}`,
    `{{ ${'-'.repeat(20000)}1 }}`,
    `{{ x${' | upper'.repeat(20000)} }}`,
    '{% if 1 %}'.repeat(5000) + '{% endif %}'.repeat(5000),
    "{{ '{0:{0:{0}}}'.format('1') }}",
  ];

  it.each(endless.map((text) => [text.slice(0, 60), text]))('is refused with its line: %s', (_, text) => {
    const given = { messages: [{ role: 'user', content: 'q' }], where: 'chats.jsonl, line 1' };
    expect(() => template(`\n${text}`).render(given)).toThrow(
      expect.objectContaining({
        code: 'MTL_CHAT_TEMPLATE',
        message: expect.stringMatching(/line 2: /) as string,
      }),
    );
  });

  it('has room for a conversation of a thousand turns', () => {
    const messages = Array.from({ length: 1000 }, (_, index) =>
      said(index % 2 ? 'assistant' : 'user', 'word '.repeat(200)),
    );
    const { text } = template(reasoning).render({ messages, where: 'here' });
    expect(text.length).toBeGreaterThan(1_000_000);
  });
});
