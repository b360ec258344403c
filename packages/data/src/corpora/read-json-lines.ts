import { nearestName } from '@mtl/errors';
import { corpusError } from './corpus-error.js';
import { type ReadLinesOptions, readLines } from './read-lines.js';

/** Streams the texts under `key` of a JSON-lines file; lines of white space are passed over. */
export async function* readJsonLines(
  options: ReadLinesOptions & { readonly key: string },
): AsyncGenerator<string, void, undefined> {
  const { path, key } = options;
  for await (const { text, number: line } of readLines(options)) {
    if (text.trim() === '') continue;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (cause) {
      throw corpusError({
        path,
        line,
        what: `is not JSON (${(cause as Error).message})`,
        expected: `one object per line, {"${key}": "..."}`,
        remedy: 'repair or remove the line',
        cause,
      });
    }
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw corpusError({ path, line, what: 'is not a JSON object', expected: `{"${key}": "..."}` });
    }
    const document = (value as Record<string, unknown>)[key];
    if (typeof document === 'string') {
      yield document;
      continue;
    }
    const keys = Object.keys(value);
    const texts = Object.entries(value).flatMap(([name, of]) => (typeof of === 'string' ? [name] : []));
    const near = nearestName(key, texts) ?? (texts.length === 1 ? texts[0] : undefined);
    throw corpusError({
      path,
      line,
      what: keys.includes(key) ? `"${key}" is not a text` : `has no key "${key}"`,
      expected: `a text under "${key}"; the line has ${keys.map((name) => `"${name}"`).join(', ') || 'no keys'}`,
      remedy: `choose the key of the text${near === undefined ? '' : `, for example "${near}"`}`,
    });
  }
}
