import type { Token, TokenType } from './lexer.js';
import { TemplateError } from './template-error.js';

/** Expressions and blocks inside each other that a template may have. */
const maximumNesting = 200;

/** The tokens of a template in turn. */
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

  /** The current token; the next one becomes current. */
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

  /** Parses what is inside something else. */
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

/** A token in messages: what it says, or else what it is. */
export const describe = ({ type, text }: Token): string =>
  type === 'name' || type === 'operator' ? text : described[type];
