import { PythonFloat } from '@mtl/chat-templates';
import { floatText } from '@mtl/chat-templates/internal';

const pythonNumber = /(?<![-.\w])(?:NaN|-?Infinity)\b/g;

/**
 * Parses a JSON string like Python's `json`, which also accepts NaN, Infinity and -Infinity. These become 0,
 * because callers do not need their values.
 *
 * @throws SyntaxError for strings that Python also rejects
 */
export function parsePythonJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const plain = withoutPythonNumbers(text);
    if (plain === text) throw error;
    return JSON.parse(plain);
  }
}

/**
 * Replaces NaN, Infinity and -Infinity by numbers with the same number of characters, so that positions in
 * error messages stay correct.
 */
function withoutPythonNumbers(text: string): string {
  const parts: string[] = [];
  for (let start = 0; start < text.length; ) {
    const quote = text.indexOf('"', start);
    const outside = quote < 0 ? text.slice(start) : text.slice(start, quote);
    parts.push(outside.replace(pythonNumber, (word) => '0'.padEnd(word.length)));
    if (quote < 0) break;
    const end = endOfJsonString(text, quote);
    parts.push(text.slice(quote, end));
    start = end;
  }
  return parts.join('');
}

/**
 * Returns the end of the string literal that begins with the quotation mark at `start`: the position after
 * its closing mark or, if there is none, the end of `text`.
 */
export function endOfJsonString(text: string, start: number): number {
  for (let at = start + 1; ; ) {
    const quote = text.indexOf('"', at);
    if (quote < 0) return text.length;
    let backslashes = 0;
    while (text[quote - 1 - backslashes] === '\\') backslashes++;
    at = quote + 1;
    if (backslashes % 2 === 0) return at;
  }
}

export type PythonJsonValue =
  | null
  | boolean
  | number
  | string
  | PythonFloat
  | readonly PythonJsonValue[]
  | { readonly [key: string]: PythonJsonValue };

/**
 * Returns the same string as Python's `json.dumps(value, indent=4)`, including spacing, escapes and the
 * format of floats. This is necessary because Megatron names cache files by the md5 of such a string.
 */
export function pythonJson(value: PythonJsonValue, indent = ''): string {
  if (value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'number') return value.toFixed(0);
  if (typeof value === 'string') return pythonString(value);
  if (value instanceof PythonFloat) return floatText(value.value);
  const inner = `${indent}    `;
  if (Array.isArray(value)) {
    if (value.length === 0) return '[]';
    return `[\n${value.map((item) => inner + pythonJson(item, inner)).join(',\n')}\n${indent}]`;
  }
  const entries = Object.entries(value as { readonly [key: string]: PythonJsonValue });
  if (entries.length === 0) return '{}';
  const lines = entries.map(([key, item]) => `${inner}${pythonString(key)}: ${pythonJson(item, inner)}`);
  return `{\n${lines.join(',\n')}\n${indent}}`;
}

function pythonString(text: string): string {
  // Python escapes all characters except printable ASCII.
  return JSON.stringify(text).replace(/[\u007f-\uffff]/g, (unit) => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}
