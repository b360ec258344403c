import { isJsonObject } from '@mtl/errors/files';
import type { ChatMessage } from './message.js';
import { type JsonValue, parseJson } from './python/python-json.js';

/** The arguments of a call that are given as JSON text, as in files of OpenAI's format. */
export interface TextArguments {
  readonly text: string;
  /** The parsed object. */
  readonly value: JsonValue;
  /** The index among all arguments of the messages that are given as JSON text. */
  readonly index: number;
}

/**
 * Returns messages with other arguments in calls whose arguments are the text of an object; undefined if
 * there are no such calls.
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

/** Returns arguments, as JSON text, that no real conversation contains; they identify their index. */
export const probeArguments = (index: number): string => `{"gxqvzwk": ${index}}`;

const quotedProbe = /"\{\\"gxqvzwk\\": (\d+)\}"/g;

/**
 * Returns the indices of the probes that a rendered text contains as JSON strings, in quotes and with
 * escapes.
 */
export function quotedProbes(rendered: string): ReadonlySet<number> {
  return new Set(Array.from(rendered.matchAll(quotedProbe), ([, index]) => Number(index)));
}

/** Returns a map or object in which the value of an existing key is changed. */
function changed(value: unknown, key: string, change: (value: unknown) => unknown): unknown {
  if (value instanceof Map) {
    return value.has(key)
      ? new Map([...value].map(([name, one]) => [name, name === key ? change(one) : one]))
      : value;
  }
  return isJsonObject(value) && Object.hasOwn(value, key) ? { ...value, [key]: change(value[key]) } : value;
}

/** Returns the object that a JSON text represents; undefined if the text is anything else. */
function parseObject(text: string): JsonValue | undefined {
  try {
    const value = parseJson(text);
    return value instanceof Map ? value : undefined;
  } catch {
    // plain text, which templates write unchanged
    return undefined;
  }
}
