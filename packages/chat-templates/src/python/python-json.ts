/** The maximum number of decimal digits of an int that Python parses. */
const maximumDigits = 4300;
/** The maximum nesting depth of lists and objects in JSON. */
const maximumDepth = 500;

/**
 * A JSON value that keeps the distinctions of Python's `json.loads`, such as between int and float (see
 * `parseJson`).
 */
export type JsonValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | PythonFloat
  | readonly JsonValue[]
  | ReadonlyMap<string, JsonValue>;

/**
 * Parses JSON without loss. An object becomes a map whose keys may be any strings, in source order. An
 * integer beyond 2^53 becomes a bigint. A whole number that is written as a float (`2.0`, `1e3`) becomes a
 * `PythonFloat`. As in Python's `json.loads`, NaN and Infinity are numbers.
 * @throws SyntaxError with the position
 */
export function parseJson(text: string): JsonValue {
  return new JsonParser(text).parse();
}

const space = /[ \t\n\r]*/y;
const number = /(-?(?:0|[1-9]\d*))(\.\d+)?([eE][-+]?\d+)?/y;
const plainText = /[^"\\\p{Cc}]*/uy;
const words: readonly (readonly [string, JsonValue])[] = [
  ['null', null],
  ['true', true],
  ['false', false],
  ['NaN', Number.NaN],
  ['Infinity', Number.POSITIVE_INFINITY],
  ['-Infinity', Number.NEGATIVE_INFINITY],
];
const escapes: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
};

class JsonParser {
  readonly #text: string;
  #at = 0;
  #depth = 0;

  constructor(text: string) {
    this.#text = text;
  }

  parse(): JsonValue {
    const value = this.#value();
    if (this.#next() !== undefined) this.#fail('the end');
    return value;
  }

  #fail(expected: string): never {
    throw new SyntaxError(`expected ${expected} at character ${this.#at + 1}`);
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found !== null) this.#at = pattern.lastIndex;
    return found;
  }

  /** Returns the next character that is not white space. */
  #next(): string | undefined {
    this.#match(space);
    return this.#text[this.#at];
  }

  #value(): JsonValue {
    const next = this.#next();
    if (next === '"') return this.#string();
    if (next === '{' || next === '[') return this.#nested(next);
    for (const [word, value] of words) {
      if (!this.#text.startsWith(word, this.#at)) continue;
      this.#at += word.length;
      return value;
    }
    return this.#number();
  }

  #nested(bracket: '{' | '['): JsonValue {
    this.#depth += 1;
    if (this.#depth > maximumDepth) this.#fail(`at most ${maximumDepth} lists and objects inside each other`);
    this.#at += 1;
    const value = bracket === '{' ? this.#object() : this.#array();
    this.#depth -= 1;
    return value;
  }

  #array(): readonly JsonValue[] {
    const items: JsonValue[] = [];
    if (this.#skip(']')) return items;
    do items.push(this.#value());
    while (this.#skip(','));
    if (!this.#skip(']')) this.#fail("',' or ']'");
    return items;
  }

  #object(): ReadonlyMap<string, JsonValue> {
    const entries = new Map<string, JsonValue>();
    if (this.#skip('}')) return entries;
    do {
      if (this.#next() !== '"') this.#fail('a name in double quotes');
      const name = this.#string();
      if (!this.#skip(':')) this.#fail("':'");
      entries.set(name, this.#value());
    } while (this.#skip(','));
    if (!this.#skip('}')) this.#fail("',' or '}'");
    return entries;
  }

  #skip(character: string): boolean {
    if (this.#next() !== character) return false;
    this.#at += 1;
    return true;
  }

  #number(): JsonValue {
    const found = this.#match(number);
    if (found === null) this.#fail('a value');
    const [whole, integer, fraction, exponent] = found;
    if (fraction === undefined && exponent === undefined) {
      if (integer!.length > maximumDigits) this.#fail(`an integer of at most ${maximumDigits} digits`);
      const value = Number(integer);
      // A Python int has no negative zero, so `+ 0` turns -0 into 0.
      return Number.isSafeInteger(value) ? value + 0 : BigInt(integer!);
    }
    const value = Number(whole);
    return Number.isInteger(value) ? new PythonFloat(value) : value;
  }

  #string(): string {
    this.#at += 1;
    let text = '';
    for (;;) {
      text += this.#match(plainText)![0];
      const next = this.#text[this.#at];
      if (next === '"') break;
      if (next === '\\') text += this.#escape();
      // Python accepts control characters beyond ASCII in strings.
      else if (next !== undefined && next >= '\x7f') {
        text += next;
        this.#at += 1;
      } else this.#fail(next === undefined ? "'\"'" : 'an escape in place of a control character');
    }
    this.#at += 1;
    return text;
  }

  #escape(): string {
    const letter = this.#text[this.#at + 1] ?? '';
    const known = escapes[letter];
    if (known !== undefined) {
      this.#at += 2;
      return known;
    }
    const digits = this.#text.slice(this.#at + 2, this.#at + 6);
    if (letter !== 'u' || !/^[\da-fA-F]{4}$/.test(digits)) this.#fail('an escape of JSON');
    this.#at += 6;
    return String.fromCharCode(Number.parseInt(digits, 16));
  }
}

/** A Python float, which prints with a decimal point even if it is whole. */
export class PythonFloat {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}
