import { nearestName } from '@mtl/errors';
import { isJsonObject, parsePythonJson } from '../python/json.js';
import { corpusError, reportBadLine } from './corpus-error.js';
import { type JsonRecord, readJsonRecords } from './read-json-records.js';
import type { ReadLinesOptions } from './read-lines.js';

/** Streams the texts under `key` of the records of JSON lines, or of one array. */
export async function* readJsonLines(
  options: ReadLinesOptions & { readonly key: string },
): AsyncGenerator<string, void, undefined> {
  const { path, key, onBadLine } = options;
  for await (const record of readJsonRecords(options)) {
    const text = textOf(record, { path, key });
    if (typeof text === 'string') yield text;
    else reportBadLine(text, onBadLine);
  }
}

/** The text of a record, or what is wrong with it. */
function textOf(record: JsonRecord, { path, key }: { readonly path: string; readonly key: string }) {
  const { text, line, element } = record;
  const at = { path, line, element };
  let value: unknown;
  try {
    value = parsePythonJson(text);
  } catch (cause) {
    return corpusError({
      ...at,
      what: `is not JSON (${(cause as Error).message})`,
      expected: `one object per line, {"${key}": "..."}, or an array of them`,
      remedy: /^\s*\{\s*$/.test(text)
        ? `write every object in one line, for example with jq -c . ${path}`
        : `repair or remove the ${element === undefined ? 'line' : 'element'}`,
      cause,
    });
  }
  if (!isJsonObject(value)) {
    return corpusError({ ...at, what: 'is not a JSON object', expected: `{"${key}": "..."}` });
  }
  const document = value[key];
  if (typeof document === 'string') return document;
  const keys = Object.keys(value);
  const texts = Object.entries(value).flatMap(([name, of]) => (typeof of === 'string' ? [name] : []));
  const near = nearestName(key, texts) ?? (texts.length === 1 ? texts[0] : undefined);
  const has = element === undefined ? 'the line has' : 'it has';
  return corpusError({
    ...at,
    what: keys.includes(key) ? `"${key}" is not a text` : `has no key "${key}"`,
    expected: `a text under "${key}"; ${has} ${keys.map((name) => `"${name}"`).join(', ') || 'no keys'}`,
    remedy: `choose the key of the text${near === undefined ? '' : `, for example "${near}"`}`,
  });
}
