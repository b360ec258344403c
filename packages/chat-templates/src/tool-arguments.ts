import { isJsonObject } from '@mtl/errors/files';
import type { ChatMessage } from './message.js';
import { type JsonValue, parseJson } from './python/python-json.js';

/** Arguments of a call that are given as a JSON string, as in OpenAI's format. */
export interface TextArguments {
  readonly text: string;
  /** The parsed text. */
  readonly value: JsonValue;
  /** The index of these arguments among all arguments that the messages give as JSON strings. */
  readonly index: number;
}

/**
 * Replaces the arguments of every call whose arguments are a JSON string, using the result of `replace`.
 * Returns undefined if there are no such calls.
 */
export function replaceTextArguments(
  messages: readonly ChatMessage[],
  replace: (given: TextArguments) => unknown,
): readonly ChatMessage[] | undefined {
  let numReplaced = 0;
  const replacedCall = (call: unknown): unknown => {
    const inner = changed(call, 'function', replacedCall);
    return changed(inner, 'arguments', (given) => {
      const value = typeof given === 'string' ? parseObject(given) : undefined;
      return value === undefined ? given : replace({ text: given as string, value, index: numReplaced++ });
    });
  };
  const replaced = messages.map((message) => {
    const { tool_calls: calls, function_call: call } = message;
    return {
      ...message,
      ...(Array.isArray(calls) ? { tool_calls: calls.map(replacedCall) } : {}),
      ...(call === undefined ? {} : { function_call: replacedCall(call) }),
    };
  });
  return numReplaced === 0 ? undefined : replaced;
}

/**
 * Returns the probe with the given index: a JSON string that serves as the arguments of a call and occurs in
 * no real conversation.
 */
export const probeArguments = (index: number): string => `{"gxqvzwk": ${index}}`;

const quotedProbe = /"\{\\"gxqvzwk\\": (\d+)\}"/g;

/** Returns the indices of the probes that `rendered` contains as quoted, escaped JSON strings. */
export function quotedProbes(rendered: string): ReadonlySet<number> {
  return new Set(Array.from(rendered.matchAll(quotedProbe), ([, index]) => Number(index)));
}

/**
 * Returns a copy of a map or object in which `change` has replaced the value of `key`. Returns the value
 * unchanged if it has no such key.
 */
function changed(value: unknown, key: string, change: (value: unknown) => unknown): unknown {
  if (value instanceof Map) {
    return value.has(key)
      ? new Map([...value].map(([name, one]) => [name, name === key ? change(one) : one]))
      : value;
  }
  return isJsonObject(value) && Object.hasOwn(value, key) ? { ...value, [key]: change(value[key]) } : value;
}

/** Returns the object that the JSON string `text` represents; undefined for any other string. */
function parseObject(text: string): JsonValue | undefined {
  try {
    const value = parseJson(text);
    return value instanceof Map ? value : undefined;
  } catch {
    // The string is not JSON. It is not changed, because templates can write any text.
    return undefined;
  }
}
