import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runMtlIn } from './support/run-mtl-in.js';
import { spawnMtl } from './support/spawn-mtl.js';
import { temporaryDirectory } from './support/temporary-directory.js';
import { trainTinyGpt } from './support/train-tiny-gpt.js';

const directory = temporaryDirectory();
afterAll(() => directory.dispose());

const template =
  "{% for m in messages %}{% if m.role == 'poet' %}{{ raise_exception('no poets') }}{% endif %}{{ m.role[0] + ':' + m.content + eos_token }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}";
const turn = (index: number, role = 'user') => [
  { role, content: `${index % 3}?` },
  { role: 'assistant', content: 'the cat sat' },
];
/** A conversation of two turns. */
const line = (index: number, role?: string): string =>
  JSON.stringify({ messages: [...turn(index, role), ...turn(index + Math.floor(index / 3))] });

const cwd = directory.path;
const mtl = (argv: readonly string[]) => runMtlIn(argv, { cwd });
const sft = ['sft', '--model', 'run', '--chat-template', 'chat.jinja', '--threads', '1'];

beforeAll(async () => {
  await trainTinyGpt(directory.path);
  writeFileSync(join(directory.path, 'chat.jinja'), template);
  const lines = Array.from({ length: 48 }, (_, index) => line(index));
  writeFileSync(join(directory.path, 'chats.jsonl'), `${lines.join('\n')}\n`);
  writeFileSync(join(directory.path, 'poets.jsonl'), `${line(0)}\n${line(1, 'poet')}\n`);
});

describe('mtl sft', () => {
  it('tunes a model on conversations, and mtl chat talks to what it saved', async () => {
    const { status, stdout, stderr } = await mtl([
      ...[...sft, '--train-data', 'chats.jsonl', '--validation-fraction', '0.1', '--epochs', '6'],
      ...[
        '--lr',
        '0.01',
        '--hidden-dropout',
        '0',
        '--attention-dropout',
        '0',
        '--micro-batch-size',
        '2',
        '--save',
        'chat',
        '--save-hf',
        'chat-hf',
      ],
    ]);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toContain('conversations by chat.jinja: 43 to train on, 5 to evaluate on');
    expect(stdout).toMatch(/A conversation:\nuser: 0\?\nassistant: the cat sat\n/);
    // the template goes with the model
    expect(readFileSync(join(directory.path, 'chat-hf/chat_template.jinja'), 'utf8')).toBe(template);
    expect(existsSync(join(directory.path, 'chat/tokenizer/chat_template.jinja'))).toBe(true);
    const chat = await spawnMtl(['chat', 'chat-hf', '--temperature', '0', '--threads', '1'], {
      cwd,
      input: '0?\n2?\n',
    });
    expect(chat).toMatchObject({ status: 0, stdout: 'the cat sat\nthe cat sat\n' });
  });

  it('names the line that the template refuses', async () => {
    const { status, stderr } = await mtl([...sft, '--train-data', 'poets.jsonl', '--save', 'none']);
    expect(status).toBe(2);
    expect(stderr).toContain(
      'error[MTL_CHAT_TEMPLATE]: poets.jsonl, line 2: chat.jinja refuses it: no poets',
    );
    expect(existsSync(join(directory.path, 'none'))).toBe(false);
  });
});
