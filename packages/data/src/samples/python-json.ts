import { floatText } from '../python/float-text.js';

/** A number that Python would hold as a float: printed with a decimal point even when whole. */
export class PythonFloat {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
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
 * The text of Python's `json.dumps(value, indent=4)`: Megatron names cache files by the md5 of such a text,
 * so spacing, escapes and the printing of floats must agree.
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
  // Python escapes everything outside printable ASCII.
  return JSON.stringify(text).replace(/[\u007f-\uffff]/g, (unit) => {
    return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}
