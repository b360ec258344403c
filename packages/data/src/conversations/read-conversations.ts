import { placeInCorpus } from '../corpora/corpus-error.js';
import { readJsonRecords } from '../corpora/read-json.js';
import { isJsonObject, type JsonValue, parseJson } from '../python/json.js';
import { type ChatMessage, type Conversation, isLearnt, numberOf } from './conversation.js';
import { conversationError } from './conversation-error.js';
import { checkIsJson, remedyWithoutAssistant, withMessages } from './conversation-formats.js';

const forms =
  '{"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}, {"prompt": ..., "completion": ...} with texts or lists of messages, or a line of ShareGPT or Alpaca';

/**
 * Streams the conversations of a file of JSON lines, or of one array (gunzipped when it ends in .gz); lines
 * of white space are passed over. A line has `messages`, or `prompt` and `completion`: lists of messages, or
 * texts, which are a message of the user and the answer. Of a prompt nothing is learnt, nor of a message with
 * `"weight": 0` or `"train": false`. `tools` may come with either. Lines of ShareGPT and Alpaca are read as
 * `withMessages` describes.
 *
 * What is inside the fields of a message, and `tools`, is as Python's `json.loads` would read it: an object
 * is a map with the keys in the order of the line, an integer beyond 2^53 a bigint, and a whole number that
 * is spelt as a float (`2.0`) a `PythonFloat`.
 *
 * @throws DataError MTL_DATA_CONVERSATION with the line; MTL_DATA_CORPUS for a file that cannot be read
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
  const value = withMessages(lineOf(parsed), where);
  const conversation = { ...messagesOf(value, where), tools: toolsOf(value, where), where };
  if (conversation.messages.some((_, index) => isLearnt(conversation, index))) return conversation;
  throw conversationError(where, 'has no message of the assistant to learn', {
    expected: 'a message with the role "assistant", without "weight": 0 or "train": false',
    remedy: remedyWithoutAssistant(conversation.messages),
  });
}

const listsOfMessages = ['messages', 'prompt', 'completion', 'conversations'];

/** A line and its messages as objects; what is inside their fields stays as it is. */
function lineOf(parsed: ReadonlyMap<string, JsonValue>): Readonly<Record<string, unknown>> {
  const objectOf = (value: JsonValue) => (value instanceof Map ? Object.fromEntries(value) : value);
  return Object.fromEntries(
    [...parsed].map(([key, value]) => [
      key,
      listsOfMessages.includes(key) && Array.isArray(value) ? value.map(objectOf) : value,
    ]),
  );
}

function messagesOf(
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
    const problem = problemOf(message);
    if (problem === undefined) continue;
    throw conversationError(where, `message ${index + 1} of "${key}" ${problem}`, {
      expected: '{"role": "user", "content": "..."}; an assistant may have "tool_calls" instead of content',
    });
  }
  return value as readonly ChatMessage[];
}

function problemOf(message: unknown): string | undefined {
  if (!isJsonObject(message)) return 'is not a JSON object';
  const { role, content, tool_calls: toolCalls, weight, train } = message;
  if (typeof role !== 'string' || role === '') return 'has no "role"';
  if (![undefined, null, 0, 1].includes(numberOf(weight) as number | null | undefined)) {
    return 'has a "weight" that is neither 0 nor 1';
  }
  if (![undefined, null, true, false].includes(train as boolean | null | undefined)) {
    return 'has a "train" that is neither true nor false';
  }
  if (typeof content === 'string' || Array.isArray(content)) return undefined;
  if ((content === undefined || content === null) && Array.isArray(toolCalls)) return undefined;
  return content === undefined ? 'has no "content"' : '"content" is not a text';
}

/** A list, or its JSON in a text, as tables of texts have it. */
function toolsOf(
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
