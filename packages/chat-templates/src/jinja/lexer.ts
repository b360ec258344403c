import { TemplateError } from './runtime.js';

type TokenType =
  | 'data'
  | 'blockBegin'
  | 'blockEnd'
  | 'variableBegin'
  | 'variableEnd'
  | 'name'
  | 'string'
  | 'integer'
  | 'float'
  | 'operator'
  | 'end';

interface Token {
  readonly type: TokenType;
  /** The text of the token: a string without quotes and with its escapes resolved, a number without `_`. */
  readonly text: string;
  readonly line: number;
}

/** The characters that Python's str.isspace, and \s in its regular expressions, treat as white space. */
export const whitespace =
  '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';

const space = `[${whitespace}]`;
const oneSpace = new RegExp(space);

/** Returns the length of `text` without the white space at its end. */
export function endOfText(text: string): number {
  let end = text.length;
  while (end > 0 && oneSpace.test(text[end - 1]!)) end -= 1;
  return end;
}

const tag = /\{[%{#]/g;
const rawTag = new RegExp(`\\{%([-+]?)${space}*raw${space}*(?:-%\\}${space}*|%\\})`, 'y');
const rawEnd = new RegExp(`\\{%([-+]?)${space}*endraw${space}*(?:\\+%\\}|-%\\}${space}*|%\\}\\n?)`, 'g');
const commentEnd = new RegExp(`\\+#\\}|-#\\}${space}*|#\\}\\n?`, 'g');
const ends = {
  block: new RegExp(`\\+%\\}|-%\\}${space}*|%\\}\\n?`, 'y'),
  variable: new RegExp(`-\\}\\}${space}*|\\}\\}`, 'y'),
};
const digits = '(?:\\d+_)*\\d+';
const rules: readonly (readonly [TokenType | 'space', RegExp])[] = [
  ['space', new RegExp(`${space}+`, 'y')],
  ['float', new RegExp(`(?<!\\.)${digits}(?:(?:\\.${digits})?[eE][+-]?${digits}|\\.${digits})`, 'y')],
  ['integer', /0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[\da-fA-F])+|[1-9](?:_?\d)*|0(?:_?0)*/y],
  ['name', /[\p{ID_Continue}_]+/uy],
  ['string', /'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"/sy],
  ['operator', /\/\/|\*\*|==|!=|>=|<=|[-+/*%~[\](){}><=.:|,;]/y],
];
const identifier = /^[\p{ID_Start}_][\p{ID_Continue}]*$/u;
const closing: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' };

/**
 * Returns the tokens of a template. As in the transformers library, `trim_blocks` removes the line break
 * after a block, and `lstrip_blocks` the white space before a block on its line.
 * @throws TemplateError, which contains the line
 */
export function tokenize(template: string): readonly Token[] {
  return new Lexer(template.replace(/\r\n?/g, '\n').replace(/\n$/, '')).tokens();
}

class Lexer {
  readonly #source: string;
  readonly #tokens: Token[] = [];
  #at = 0;
  #line = 1;

  constructor(source: string) {
    this.#source = source;
  }

  tokens(): readonly Token[] {
    while (this.#at < this.#source.length) {
      tag.lastIndex = this.#at;
      const next = tag.exec(this.#source)?.index ?? this.#source.length;
      if (next === this.#source.length) this.#data(next, '+');
      else this.#tagAt(next);
    }
    this.#push('end', '');
    return this.#tokens;
  }

  #push(type: TokenType, text: string): void {
    this.#tokens.push({ type, text, line: this.#line });
  }

  #moveTo(end: number): void {
    for (let at = this.#at; at < end; at++) if (this.#source[at] === '\n') this.#line += 1;
    this.#at = end;
  }

  /**
   * Adds the text before a tag. The sign of the tag (`-` or `+`) decides whether the white space before the
   * tag stays.
   */
  #data(end: number, sign: string): void {
    let text = this.#source.slice(this.#at, end);
    const startsLine = this.#at === 0 || this.#source[this.#at - 1] === '\n';
    if (sign === '-') text = text.slice(0, endOfText(text));
    else if (sign === '') {
      const line = text.lastIndexOf('\n') + 1;
      if ((line > 0 || startsLine) && allSpace.test(text.slice(line))) text = text.slice(0, line);
    }
    if (text !== '') this.#push('data', text);
    this.#moveTo(end);
  }

  #tagAt(start: number): void {
    const source = this.#source;
    rawTag.lastIndex = start;
    const raw = rawTag.exec(source);
    if (raw !== null) {
      this.#data(start, raw[1]!);
      this.#moveTo(rawTag.lastIndex);
      this.#raw();
      return;
    }
    const kind = source[start + 1]!;
    const after = source[start + 2];
    const sign = after === '-' || after === '+' ? after : '';
    // the white space before a variable (`{{`) is kept, unless a minus sign removes it
    this.#data(start, kind === '{' && sign === '' ? '+' : sign);
    if (kind === '#') {
      this.#comment(start + 2 + sign.length);
      return;
    }
    const tagKind = kind === '%' ? 'block' : 'variable';
    this.#push(`${tagKind}Begin`, '');
    this.#moveTo(start + 2 + sign.length);
    this.#inside(tagKind);
  }

  #raw(): void {
    rawEnd.lastIndex = this.#at;
    const end = rawEnd.exec(this.#source);
    if (end === null) throw new TemplateError('Missing end of raw directive', this.#line);
    this.#data(end.index, end[1]!);
    this.#moveTo(rawEnd.lastIndex);
  }

  #comment(start: number): void {
    commentEnd.lastIndex = start;
    if (commentEnd.exec(this.#source) === null) {
      throw new TemplateError('Missing end of comment tag', this.#line);
    }
    this.#moveTo(commentEnd.lastIndex);
  }

  #inside(kind: 'block' | 'variable'): void {
    const brackets: string[] = [];
    for (;;) {
      const end = ends[kind];
      end.lastIndex = this.#at;
      // Inside brackets, the characters that could end a tag (`}}`) belong to the expression.
      if (brackets.length === 0 && end.test(this.#source)) {
        this.#push(`${kind}End`, '');
        this.#moveTo(end.lastIndex);
        return;
      }
      this.#one(brackets);
    }
  }

  #one(brackets: string[]): void {
    for (const [type, rule] of rules) {
      rule.lastIndex = this.#at;
      const text = rule.exec(this.#source)?.[0];
      if (text === undefined) continue;
      if (type === 'operator') this.#balance(text, brackets);
      if (type !== 'space') this.#push(type, this.#decodeText(type, text));
      this.#moveTo(this.#at + text.length);
      return;
    }
    if (this.#at >= this.#source.length) throw new TemplateError('unexpected end of template', this.#line);
    const character = String.fromCodePoint(this.#source.codePointAt(this.#at)!);
    throw new TemplateError(`unexpected char '${character}' at ${this.#at}`, this.#line);
  }

  #balance(operator: string, brackets: string[]): void {
    const close = closing[operator];
    if (close !== undefined) brackets.push(close);
    else if (')]}'.includes(operator)) {
      const expected = brackets.pop();
      if (expected === operator) return;
      const instead = expected === undefined ? '' : `, expected '${expected}'`;
      throw new TemplateError(`unexpected '${operator}'${instead}`, this.#line);
    }
  }

  #decodeText(type: TokenType, text: string): string {
    if (type === 'string') return unescaped(text.slice(1, -1), this.#line);
    if (type === 'integer' || type === 'float') return text.replaceAll('_', '');
    if (type === 'name' && !identifier.test(text)) {
      throw new TemplateError('Invalid character in identifier', this.#line);
    }
    return text;
  }
}

const allSpace = new RegExp(`^${space}+$`);
const simple: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  a: '\x07',
  b: '\b',
  f: '\f',
  v: '\v',
  '\n': '',
  '\\': '\\',
  "'": "'",
  '"': '"',
};
const escapes = /\\(?:([0-7]{1,3})|x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|(.))/gsu;

/** Resolves the escapes in a string literal of Python source code. */
function unescaped(text: string, line: number): string {
  if (!text.includes('\\')) return text;
  return text.replace(escapes, (whole, octal, byte, short, long, other: string | undefined) => {
    if (other === undefined) {
      const code =
        octal === undefined ? Number.parseInt(byte ?? short ?? long, 16) : Number.parseInt(octal, 8);
      if (code <= 0x10ffff) return String.fromCodePoint(code);
    } else {
      const known = simple[other];
      if (known !== undefined) return known;
      if (!'xuUN'.includes(other)) return whole;
    }
    throw new TemplateError(`the escape ${whole} of a string is not one of Python's`, line);
  });
}

/** The maximum nesting depth of expressions and blocks in a template. */
const maximumNesting = 200;

/** The tokens of a template, read one after the other. */
export class TokenStream {
  readonly #tokens: readonly Token[];
  #at = 0;
  #nesting = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  get current(): Token {
    return this.#tokens[this.#at]!;
  }

  get following(): Token {
    return this.#tokens[this.#at + 1] ?? this.current;
  }

  /** Returns the current token, and makes the next token the current one. */
  next(): Token {
    const token = this.current;
    if (token.type !== 'end') this.#at += 1;
    return token;
  }

  is(type: TokenType, text?: string): boolean {
    const { current } = this;
    return current.type === type && (text === undefined || current.text === text);
  }

  isOperator(...texts: readonly string[]): boolean {
    return this.current.type === 'operator' && texts.includes(this.current.text);
  }

  isName(...texts: readonly string[]): boolean {
    return this.current.type === 'name' && texts.includes(this.current.text);
  }

  skip(type: TokenType, text: string): boolean {
    if (!this.is(type, text)) return false;
    this.next();
    return true;
  }

  expect(type: TokenType, text?: string): Token {
    if (this.is(type, text)) return this.next();
    const expected = text ?? described[type];
    if (this.current.type === 'end') this.fail(`unexpected end of template, expected '${expected}'.`);
    return this.fail(`expected token '${expected}', got '${describe(this.current)}'`);
  }

  fail(message: string, line = this.current.line): never {
    throw new TemplateError(message, line);
  }

  /** Parses a nested construct, and counts the nesting depth. */
  nested<T>(parse: () => T): T {
    this.#nesting += 1;
    if (this.#nesting > maximumNesting) this.fail('is nested too deeply');
    const result = parse();
    this.#nesting -= 1;
    return result;
  }
}

const described: Readonly<Record<TokenType, string>> = {
  data: 'template data',
  blockBegin: 'begin of statement block',
  blockEnd: 'end of statement block',
  variableBegin: 'begin of print statement',
  variableEnd: 'end of print statement',
  name: 'name',
  string: 'string',
  integer: 'integer',
  float: 'float',
  operator: 'operator',
  end: 'end of template',
};

/** Returns the description of a token for messages: the token's text if it has one, otherwise its type. */
export const describe = ({ type, text }: Token): string =>
  type === 'name' || type === 'operator' ? text : described[type];
