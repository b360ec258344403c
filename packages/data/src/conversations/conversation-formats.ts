import { isJsonObject } from '../python/json.js';
import type { ChatMessage } from './conversation.js';
import { conversationError } from './conversation-error.js';

type JsonObject = Readonly<Record<string, unknown>>;

/** ShareGPT's names of who speaks, and those of its successors. */
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
 * A line of ShareGPT's or Alpaca's form as one with `messages`; other lines are left as they are.
 *
 * - ShareGPT: `conversations`, a list of `{"from": "human", "value": "..."}`; `system` may come with it. A
 *   list of `{"role", "content"}` under that name is one of messages.
 * - Alpaca: `instruction`, `input` (behind a line break, if it is not empty) and `output`; `system` and
 *   `history`, a list of pairs of question and answer, may come with them.
 *
 * @throws DataError MTL_DATA_CONVERSATION
 */
export function withMessages(line: JsonObject, where: string): JsonObject {
  const { messages, prompt, completion, conversations, instruction, output } = line;
  if (messages !== undefined || (prompt !== undefined && completion !== undefined)) return line;
  if (Array.isArray(conversations)) {
    const { conversations: _, ...others } = line;
    const isSpoken = conversations.some((turn) => isJsonObject(turn) && 'from' in turn);
    if (!isSpoken) return { ...others, messages: conversations };
    const turns = conversations.map((turn, index) => messageOfTurn(turn, { where, number: index + 1 }));
    return { ...others, messages: [...systemOf(line, where), ...turns] };
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
  return [...systemOf(line, where), ...before, ...pair(question, text('output', line.output))];
}

function systemOf({ system }: JsonObject, where: string): readonly ChatMessage[] {
  if (system === undefined || system === null || system === '') return [];
  if (typeof system === 'string') return [{ role: 'system', content: system }];
  throw conversationError(where, '"system" is not a text', { expected: '"system": "..."' });
}

/** What to do about messages without one of the assistant. */
export function remedyWithoutAssistant(messages: readonly ChatMessage[]): string {
  const roles = [...new Set(messages.map(({ role }) => role))];
  const others = roles.filter((role) => !['user', 'assistant', 'system', 'tool'].includes(role));
  const names = others.map((role) => `"${role}"`).join(', ');
  const meant = others.map((role) => [role, rolesOfSpeakers.get(role.toLowerCase())] as const);
  const known = meant.filter(([, role]) => role !== undefined);
  if (others.length === 0) return 'remove the line';
  if (known.length === 0) return `rename the roles ${names} of the file`;
  return `rename the roles of the file: ${known.map(([from, to]) => `"${from}" is "${to}"`).join(', ')}`;
}

/** @throws DataError MTL_DATA_CONVERSATION for a Parquet file: conversations are read from JSON */
export function checkIsJson(path: string): void {
  if (!path.toLowerCase().endsWith('.parquet')) return;
  const lines = path.replace(/\.parquet$/i, '.jsonl');
  throw conversationError(path, 'is a Parquet file', {
    expected: 'JSON lines, or an array in JSON',
    remedy:
      'convert it, for example with Python: ' +
      `pandas.read_parquet("${path}").to_json("${lines}", orient="records", lines=True)`,
  });
}
