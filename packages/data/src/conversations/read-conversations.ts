import { type ChatMessage, type JsonValue, parseJson } from '@mtl/chat-templates';
import { isJsonObject } from '@mtl/errors/files';
import { placeInCorpus } from '../corpora/corpus-error.js';
import { readJsonRecords } from '../corpora/read-json.js';
import { type Conversation, conversationError, convertNumber, isLearnt } from './conversation.js';

const forms =
  '{"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}, {"prompt": ..., "completion": ...} with texts or lists of messages, or a line of ShareGPT or Alpaca';

/**
 * Streams the conversations of a file of JSON lines, or of a file with one JSON array (decompressed if the
 * name ends in .gz). Blank lines are skipped.
 *
 * A line has `messages`, or `prompt` and `completion`. `prompt` and `completion` are lists of messages, or
 * strings (a user's message and the answer). The prompt is not learnt. A message with `"weight": 0` or
 * `"train": false` is not learnt either. Both forms may have `tools`. Lines in the formats of ShareGPT and
 * Alpaca are converted by `withMessages`.
 *
 * The values in the fields of a message, and in `tools`, are read as by Python's `json.loads`: an object is a
 * map with its keys in the original order, an integer beyond 2^53 is a bigint, and an integer that is written
 * as a float (`2.0`) is a `PythonFloat`.
 *
 * @throws DataError MTL_DATA_CONVERSATION, whose message names the line; MTL_DATA_CORPUS for a file that
 *   cannot be read
 */
export async function* readConversations(path: string): AsyncGenerator<Conversation, void, undefined> {
  checkIsJson(path);
  for await (const { text, ...at } of readJsonRecords({ path })) {
    yield parseConversation(text, placeInCorpus({ path, ...at }));
  }
}

function parseConversation(text: string, where: string): Conversation {
  let parsed: JsonValue;
  try {
    parsed = parseJson(text);
  } catch (cause) {
    throw conversationError(where, `is not JSON (${(cause as Error).message})`, {
      expected: forms,
      remedy: 'repair or remove the line',
      cause,
    });
  }
  if (!(parsed instanceof Map)) throw conversationError(where, 'is not a JSON object', { expected: forms });
  const value = withMessages(parseLine(parsed), where);
  const conversation = { ...readMessages(value, where), tools: readTools(value, where), where };
  if (conversation.messages.some((_, index) => isLearnt(conversation, index))) return conversation;
  throw conversationError(where, 'has no message of the assistant to learn', {
    expected: 'a message with the role "assistant", without "weight": 0 or "train": false',
    remedy: remedyWithoutAssistant(conversation.messages),
  });
}

const listsOfMessages = ['messages', 'prompt', 'completion', 'conversations'];

/** Converts a line and its messages from maps to objects. The values in their fields stay maps. */
function parseLine(parsed: ReadonlyMap<string, JsonValue>): Readonly<Record<string, unknown>> {
  const convertObject = (value: JsonValue) => (value instanceof Map ? Object.fromEntries(value) : value);
  return Object.fromEntries(
    [...parsed].map(([key, value]) => [
      key,
      listsOfMessages.includes(key) && Array.isArray(value) ? value.map(convertObject) : value,
    ]),
  );
}

function readMessages(
  value: Readonly<Record<string, unknown>>,
  where: string,
): Pick<Conversation, 'messages' | 'numGiven'> {
  const { messages, prompt, completion } = value;
  if (messages !== undefined) {
    return { messages: checkedMessages(messages, { where, key: 'messages' }), numGiven: 0 };
  }
  if (prompt === undefined || completion === undefined) {
    const keys = Object.keys(value).map((name) => `"${name}"`);
    throw conversationError(where, `has ${keys.join(', ') || 'no keys'}`, { expected: forms });
  }
  if (typeof prompt !== typeof completion) {
    throw conversationError(where, '"prompt" and "completion" are not both texts or lists of messages', {
      expected: forms,
    });
  }
  const given = asMessages(prompt, { where, key: 'prompt', role: 'user' });
  const learnt = asMessages(completion, { where, key: 'completion', role: 'assistant' });
  return { messages: [...given, ...learnt], numGiven: given.length };
}

interface MessagesOfKey {
  readonly where: string;
  readonly key: string;
}

function asMessages(value: unknown, of: MessagesOfKey & { readonly role: string }): readonly ChatMessage[] {
  return typeof value === 'string' ? [{ role: of.role, content: value }] : checkedMessages(value, of);
}

function checkedMessages(value: unknown, { where, key }: MessagesOfKey): readonly ChatMessage[] {
  if (!Array.isArray(value) || value.length === 0) {
    throw conversationError(where, `"${key}" is not a list of messages`, { expected: forms });
  }
  for (const [index, message] of value.entries()) {
    const problem = findProblem(message);
    if (problem === undefined) continue;
    throw conversationError(where, `message ${index + 1} of "${key}" ${problem}`, {
      expected: '{"role": "user", "content": "..."}; an assistant may have "tool_calls" instead of content',
    });
  }
  return value as readonly ChatMessage[];
}

function findProblem(message: unknown): string | undefined {
  if (!isJsonObject(message)) return 'is not a JSON object';
  const { role, content, tool_calls: toolCalls, weight, train } = message;
  if (typeof role !== 'string' || role === '') return 'has no "role"';
  if (![undefined, null, 0, 1].includes(convertNumber(weight) as number | null | undefined)) {
    return 'has a "weight" that is neither 0 nor 1';
  }
  if (![undefined, null, true, false].includes(train as boolean | null | undefined)) {
    return 'has a "train" that is neither true nor false';
  }
  if (typeof content === 'string' || Array.isArray(content)) return undefined;
  if ((content === undefined || content === null) && Array.isArray(toolCalls)) return undefined;
  return content === undefined ? 'has no "content"' : '"content" is not a text';
}

/**
 * Returns the list of tools. Also accepts the list as a JSON string, because tables whose cells are strings
 * store lists in this form.
 */
function readTools(
  { tools }: Readonly<Record<string, unknown>>,
  where: string,
): readonly unknown[] | undefined {
  if (tools === undefined || tools === null || tools === '') return undefined;
  let list: unknown = tools;
  if (typeof tools === 'string') {
    try {
      list = parseJson(tools);
    } catch (cause) {
      throw conversationError(where, '"tools" is a text that is not JSON', { cause });
    }
  }
  if (!Array.isArray(list)) {
    throw conversationError(where, '"tools" is not a list', { expected: 'JSON Schemas of functions' });
  }
  return list.length === 0 ? undefined : list;
}

type JsonObject = Readonly<Record<string, unknown>>;

/** Maps the names of speakers in ShareGPT, and in derived formats, to roles. */
const rolesOfSpeakers: ReadonlyMap<string, string> = new Map([
  ['system', 'system'],
  ['human', 'user'],
  ['user', 'user'],
  ['gpt', 'assistant'],
  ['chatgpt', 'assistant'],
  ['bing', 'assistant'],
  ['bard', 'assistant'],
  ['assistant', 'assistant'],
  ['observation', 'tool'],
  ['tool', 'tool'],
]);

/**
 * Converts a line in the format of ShareGPT or Alpaca to a line with `messages`; returns other lines
 * unchanged.
 *
 * - ShareGPT: `conversations`, a list of `{"from": "human", "value": "..."}`, with an optional `system`. A
 *   list of `{"role", "content"}` under the same name is taken as messages.
 * - Alpaca: `instruction`, `input` (added after a line break, if it is not empty) and `output`, with an
 *   optional `system` and an optional `history`, a list of pairs of question and answer.
 *
 * @throws DataError MTL_DATA_CONVERSATION
 */
function withMessages(line: JsonObject, where: string): JsonObject {
  const { messages, prompt, completion, conversations, instruction, output } = line;
  if (messages !== undefined || (prompt !== undefined && completion !== undefined)) return line;
  if (Array.isArray(conversations)) {
    const { conversations: _, ...others } = line;
    const isSpoken = conversations.some((turn) => isJsonObject(turn) && 'from' in turn);
    if (!isSpoken) return { ...others, messages: conversations };
    const turns = conversations.map((turn, index) => messageOfTurn(turn, { where, number: index + 1 }));
    return { ...others, messages: [...readSystem(line, where), ...turns] };
  }
  if (instruction === undefined || output === undefined) return line;
  return { ...line, messages: messagesOfInstruction(line, where) };
}

function messageOfTurn(turn: unknown, at: { readonly where: string; readonly number: number }): ChatMessage {
  const what = `message ${at.number} of "conversations"`;
  const expected = '{"from": "human", "value": "..."}';
  if (!isJsonObject(turn)) throw conversationError(at.where, `${what} is not a JSON object`, { expected });
  const { from, value, ...others } = turn;
  const role = typeof from === 'string' ? rolesOfSpeakers.get(from.toLowerCase()) : undefined;
  if (role === undefined) {
    throw conversationError(at.where, `${what} is from ${JSON.stringify(from) ?? 'no one that is named'}`, {
      expected: `${expected}, or from ${[...rolesOfSpeakers.keys()].join(', ')}`,
      remedy: 'write other turns as {"messages": [{"role": ..., "content": ...}]}',
    });
  }
  if (typeof value !== 'string')
    throw conversationError(at.where, `${what} has no text "value"`, { expected });
  return { ...others, role, content: value };
}

function messagesOfInstruction(line: JsonObject, where: string): readonly ChatMessage[] {
  const text = (key: string, value: unknown): string => {
    if (typeof value === 'string') return value;
    throw conversationError(where, `"${key}" is not a text`, {
      expected: '{"instruction": "...", "input": "...", "output": "..."} of texts',
    });
  };
  const pair = (question: string, answer: string): readonly ChatMessage[] => [
    { role: 'user', content: question },
    { role: 'assistant', content: answer },
  ];
  const history = line.history ?? [];
  if (!Array.isArray(history) || history.some((turn) => !Array.isArray(turn) || turn.length !== 2)) {
    throw conversationError(where, '"history" is not a list of pairs', {
      expected: '[["question", "answer"]]',
    });
  }
  const before = history.flatMap(([question, answer]: readonly unknown[]) =>
    pair(text('history', question), text('history', answer)),
  );
  const input = text('input', line.input ?? '');
  const instruction = text('instruction', line.instruction);
  const question = input === '' ? instruction : `${instruction}\n${input}`;
  return [...readSystem(line, where), ...before, ...pair(question, text('output', line.output))];
}

function readSystem({ system }: JsonObject, where: string): readonly ChatMessage[] {
  if (system === undefined || system === null || system === '') return [];
  if (typeof system === 'string') return [{ role: 'system', content: system }];
  throw conversationError(where, '"system" is not a text', { expected: '"system": "..."' });
}

/** Returns the remedy for a conversation that has no message of the assistant. */
function remedyWithoutAssistant(messages: readonly ChatMessage[]): string {
  const roles = [...new Set(messages.map(({ role }) => role))];
  const others = roles.filter((role) => !['user', 'assistant', 'system', 'tool'].includes(role));
  const names = others.map((role) => `"${role}"`).join(', ');
  const meant = others.map((role) => [role, rolesOfSpeakers.get(role.toLowerCase())] as const);
  const known = meant.filter(([, role]) => role !== undefined);
  if (others.length === 0) return 'remove the line';
  if (known.length === 0) return `rename the roles ${names} of the file`;
  return `rename the roles of the file: ${known.map(([from, to]) => `"${from}" is "${to}"`).join(', ')}`;
}

/**
 * Throws for Parquet files, because conversations are read from JSON only.
 *
 * @throws DataError MTL_DATA_CONVERSATION
 */
function checkIsJson(path: string): void {
  if (!path.toLowerCase().endsWith('.parquet')) return;
  const lines = path.replace(/\.parquet$/i, '.jsonl');
  throw conversationError(path, 'is a Parquet file', {
    expected: 'JSON lines, or an array in JSON',
    remedy:
      'convert it, for example with Python: ' +
      `pandas.read_parquet("${path}").to_json("${lines}", orient="records", lines=True)`,
  });
}
