import { constants } from 'node:buffer';
import { nearestName } from '@mtl/errors';
import { isJsonObject } from '@mtl/errors/files';
import { endOfJsonString, parsePythonJson } from '../python/json.js';
import { corpusError, reportBadLine } from './corpus-error.js';
import { type CorpusLine, type ReadLinesOptions, readLineBatches } from './read-lines.js';

/** Streams the texts under `key` in the records of a file with JSON lines or with one JSON array. */
export async function* readJsonLines(
  options: ReadLinesOptions & { readonly key: string },
): AsyncGenerator<string, void, undefined> {
  const { path, key, onBadLine } = options;
  for await (const record of readJsonRecords(options)) {
    const text = readText(record, { path, key });
    if (typeof text === 'string') yield text;
    else reportBadLine(text, onBadLine);
  }
}

/** Returns the text of a record, or an error about the record. */
function readText(record: JsonRecord, { path, key }: { readonly path: string; readonly key: string }) {
  const { text, line, element } = record;
  const at = { path, line, element, isBadLine: true };
  let value: unknown;
  try {
    value = parsePythonJson(text);
  } catch (cause) {
    return corpusError({
      ...at,
      what: `is not JSON (${(cause as Error).message})`,
      expected: `one object per line, {"${key}": "..."}, or an array of such objects`,
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
    keys: texts,
    nearestKey: near,
  });
}

/** The unparsed JSON text of a record. */
interface JsonRecord {
  readonly text: string;
  /** The number of the line in which the record begins, from 1. */
  readonly line: number;
  /** The number of the array element, from 1; absent in JSON lines. */
  readonly element?: number;
}

/**
 * Streams the records of a JSON file: each non-blank line of JSON lines, or each element of a JSON array. At
 * most one record is in memory.
 *
 * @throws DataError MTL_DATA_CORPUS for a file that cannot be read, or an array that does not end
 */
export async function* readJsonRecords(
  options: ReadLinesOptions,
): AsyncGenerator<JsonRecord, void, undefined> {
  const { path, onBadLine } = options;
  let array: ArrayElements | undefined;
  let isFirst = true;
  for await (const batch of readLineBatches({ ...options, joinsEmptyLines: true })) {
    for (const line of batch) {
      const { text, number } = line;
      if (text.trim() === '') continue;
      if (isFirst && text.trimStart().startsWith('[')) array = new ArrayElements(path, number);
      isFirst = false;
      if (array === undefined) yield { text, line: number };
      else yield* array.elementsIn(line);
    }
  }
  if (array === undefined || array.isDone) return;
  const what = 'begins an array that does not end';
  const remedy = 'get the file again, or repair it';
  const at = { path, line: array.firstLine, isBadLine: true };
  reportBadLine(corpusError({ ...at, what, remedy }), onBadLine);
}

/**
 * Splits the lines of a JSON array into its elements. A JSON string cannot contain a line break, so a line
 * never ends inside a string.
 */
class ArrayElements {
  readonly firstLine: number;
  readonly #path: string;
  /** The number of open brackets: 1 between the elements of the array. */
  #depth = 0;
  #isDone = false;
  #count = 0;
  /** The lines of the current element so far. */
  #parts: string[] = [];
  #length = 0;
  #line = 0;

  constructor(path: string, firstLine: number) {
    this.#path = path;
    this.firstLine = firstLine;
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  *elementsIn({ text, number }: CorpusLine): Generator<JsonRecord, void, undefined> {
    const marks = /["[\]{},]/g;
    let start = 0;
    for (let found = marks.exec(text); found !== null && !this.#isDone; found = marks.exec(text)) {
      const { 0: mark, index } = found;
      if (mark === '"') {
        marks.lastIndex = endOfJsonString(text, index);
      } else if (mark === '[' || mark === '{') {
        this.#depth++;
        if (this.#depth === 1) start = index + 1;
      } else if (mark !== ',') {
        this.#depth--;
        this.#isDone = this.#depth === 0;
      }
      if (!this.#isDone && !(mark === ',' && this.#depth === 1)) continue;
      this.#take(text.slice(start, index), number);
      start = index + 1;
      const isEmptyArray = this.#isDone && this.#count === 0 && this.#line === 0;
      if (!isEmptyArray) yield this.#end(number);
    }
    if (!this.#isDone) {
      this.#take(text.slice(start), number);
    } else if (text.slice(start).trim() !== '') {
      const expected = 'nothing behind it, or one object on each line';
      const what = 'has more text behind the array that the file begins with';
      throw corpusError({ path: this.#path, line: number, what, expected });
    }
  }

  #take(part: string, line: number): void {
    if (this.#line === 0 && part.trim() !== '') this.#line = line;
    this.#parts.push(part);
    this.#length += part.length + 1;
    if (this.#length <= constants.MAX_STRING_LENGTH) return;
    const what = `begins an element of more than ${constants.MAX_STRING_LENGTH} characters`;
    throw corpusError({ path: this.#path, line: this.#line, what, remedy: 'repair the array' });
  }

  #end(line: number): JsonRecord {
    const record = {
      text: this.#parts.join('\n'),
      line: this.#line === 0 ? line : this.#line,
      element: ++this.#count,
    };
    this.#parts = [];
    this.#length = 0;
    this.#line = 0;
    return record;
  }
}
