import { isJsonObject, type JsonValue, parseJson } from '../python/json.js';
import type { ChatMessage } from './conversation.js';

/** Messages whose calls of functions have arguments that are texts of JSON, as OpenAI's files have them. */
export interface TextArguments {
  /** The same messages, with objects for these texts. */
  readonly parsed: readonly ChatMessage[];
  /** The texts. */
  readonly texts: readonly string[];
}

/**
 * Returns messages with the arguments of calls parsed; undefined where none of them is the text of an object.
 */
export function parseTextArguments(messages: readonly ChatMessage[]): TextArguments | undefined {
  const texts: string[] = [];
  const parsedCall = (call: unknown): unknown => {
    const inner = changed(call, 'function', parsedCall);
    return changed(inner, 'arguments', (given) => {
      const value = typeof given === 'string' ? objectOf(given) : undefined;
      if (value === undefined) return given;
      texts.push(given as string);
      return value;
    });
  };
  const parsed = messages.map((message) => {
    const { tool_calls: calls, function_call: call } = message;
    return {
      ...message,
      ...(Array.isArray(calls) ? { tool_calls: calls.map(parsedCall) } : {}),
      ...(call === undefined ? {} : { function_call: parsedCall(call) }),
    };
  });
  return texts.length === 0 ? undefined : { parsed, texts };
}

/** Returns a map or object with another value of a key that it has. */
function changed(value: unknown, key: string, change: (value: unknown) => unknown): unknown {
  if (value instanceof Map) {
    return value.has(key)
      ? new Map([...value].map(([name, one]) => [name, name === key ? change(one) : one]))
      : value;
  }
  return isJsonObject(value) && Object.hasOwn(value, key) ? { ...value, [key]: change(value[key]) } : value;
}

/** Returns the object that a text is in JSON. */
function objectOf(text: string): JsonValue | undefined {
  try {
    const value = parseJson(text);
    return value instanceof Map ? value : undefined;
  } catch {
    // plain text, which a template writes as it is
    return undefined;
  }
}

/** Returns whether a rendered text has one of the texts as a text in JSON, in quotes and with escapes. */
export function quotesAny(rendered: string, texts: readonly string[]): boolean {
  return texts.some((text) => rendered.includes(JSON.stringify(text)));
}
