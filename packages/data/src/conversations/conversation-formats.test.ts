import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Conversation } from './conversation.js';
import { readConversations } from './read-conversations.js';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'mtl-conversations-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

async function read(content: string, name = 'chats.json'): Promise<Conversation[]> {
  const path = join(directory, name);
  writeFileSync(path, content);
  const found: Conversation[] = [];
  for await (const conversation of readConversations(path)) found.push(conversation);
  return found;
}

const readMessages = async (line: object) => (await read(JSON.stringify(line)))[0]!.messages;

const said = (...turns: readonly (readonly [role: string, content: string])[]) =>
  turns.map(([role, content]) => ({ role, content }));

const conversationError = (message: RegExp, remedy = /./) => ({
  code: 'MTL_DATA_CONVERSATION',
  message: expect.stringMatching(message),
  remedy: expect.stringMatching(remedy),
});

describe('readConversations', () => {
  it('reads ShareGPT: human is the user, gpt the assistant', async () => {
    const conversations = [
      { from: 'human', value: 'Hi' },
      { from: 'gpt', value: 'Hello' },
    ];
    expect(await readMessages({ id: '1', conversations })).toEqual(
      said(['user', 'Hi'], ['assistant', 'Hello']),
    );
    expect(await readMessages({ system: 'Be brief', conversations })).toEqual(
      said(['system', 'Be brief'], ['user', 'Hi'], ['assistant', 'Hello']),
    );
    const withTool = [
      { from: 'system', value: 'S' },
      conversations[0],
      { from: 'observation', value: '7' },
      conversations[1],
    ];
    expect((await readMessages({ conversations: withTool })).map(({ role }) => role)).toEqual([
      'system',
      'user',
      'tool',
      'assistant',
    ]);
    const messages = said(['user', 'Hi'], ['assistant', 'Hello']);
    expect(await readMessages({ conversations: messages })).toEqual(messages);
  });

  it('reads Alpaca: the input is behind the instruction, the output is learnt', async () => {
    const line = { instruction: 'Add', input: '', output: '3' };
    expect(await readMessages(line)).toEqual(said(['user', 'Add'], ['assistant', '3']));
    expect(await readMessages({ ...line, input: '1 2' })).toEqual(
      said(['user', 'Add\n1 2'], ['assistant', '3']),
    );
    expect(await readMessages({ ...line, system: 'S', history: [['Q', 'A']] })).toEqual(
      said(['system', 'S'], ['user', 'Q'], ['assistant', 'A'], ['user', 'Add'], ['assistant', '3']),
    );
  });

  it('reads an array over several lines, and names its elements', async () => {
    const line = { instruction: 'Add', output: '3' };
    const found = await read(JSON.stringify([line, line], undefined, 2));
    expect(found.map(({ where }) => where)).toEqual(
      ['line 2, element 1', 'line 6, element 2'].map((at) => `${join(directory, 'chats.json')}, ${at}`),
    );
    expect(found[1]!.messages).toEqual(said(['user', 'Add'], ['assistant', '3']));
  });

  it.each([
    [
      { conversations: [{ from: 'narrator', value: 'x' }] },
      /message 1 of "conversations" is from "narrator"/,
    ],
    [{ conversations: [{ from: 'human' }] }, /message 1 of "conversations" has no text "value"/],
    [{ instruction: 'a', output: 7 }, /"output" is not a text/],
    [{ instruction: 'a', output: 'b', history: ['c'] }, /"history" is not a list of pairs/],
    [{ instruction: 'a', output: 'b', system: 7 }, /"system" is not a text/],
  ])('refuses %j', async (line, message) => {
    await expect(readMessages(line)).rejects.toMatchObject({
      code: 'MTL_DATA_CONVERSATION',
      message: expect.stringMatching(message),
      expected: expect.any(String),
    });
  });

  it('tells which roles are meant by human and gpt in messages', async () => {
    await expect(readMessages({ messages: said(['human', 'Hi'], ['gpt', 'Hello']) })).rejects.toMatchObject(
      conversationError(/no message of the assistant/, /"human" is "user", "gpt" is "assistant"/),
    );
  });

  it('tells how to convert a Parquet file', async () => {
    await expect(read('PAR1', 'chats.parquet')).rejects.toMatchObject(
      conversationError(/chats\.parquet: is a Parquet file/, /read_parquet.*to_json.*chats\.jsonl/),
    );
  });
});
