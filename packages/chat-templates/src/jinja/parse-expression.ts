import { describe, type TokenStream } from './lexer.js';
import type { Arguments, ArithmeticOperator, ComparisonOperator, Expression, FilterNode } from './nodes.js';
import type { Value } from './values.js';

const comparisons = ['==', '!=', '<', '<=', '>', '>='];
const constants = new Map<string, Value>([
  ...(['true', 'True'] as const).map((name) => [name, true] as const),
  ...(['false', 'False'] as const).map((name) => [name, false] as const),
  ...(['none', 'None'] as const).map((name) => [name, null] as const),
]);
const noArguments: Arguments = { positional: [], named: [] };

/** Parses expressions, in order of increasing precedence. */
export class ExpressionParser {
  readonly #tokens: TokenStream;
  /** A function that is called with every name that an expression reads. */
  readonly #onName: (name: string) => void;

  constructor(tokens: TokenStream, onName: (name: string) => void) {
    this.#tokens = tokens;
    this.#onName = onName;
  }

  /** Parses expressions with commas between them as a tuple. */
  tuple(
    options: { readonly choices?: boolean; readonly end?: string; readonly mayBeEmpty?: boolean } = {},
  ): Expression {
    const { choices = true, end, mayBeEmpty = false } = options;
    const tokens = this.#tokens;
    const items: Expression[] = [];
    let isTuple = false;
    const isOver = () =>
      tokens.is('variableEnd') ||
      tokens.is('blockEnd') ||
      tokens.isOperator(')') ||
      (end !== undefined && tokens.isName(end));
    while (!isOver()) {
      items.push(choices ? this.expression() : tokens.nested(() => this.#or()));
      if (!tokens.skip('operator', ',')) break;
      isTuple = true;
    }
    if (isTuple || (items.length === 0 && mayBeEmpty)) return { kind: 'tuple', items };
    return items[0] ?? tokens.fail(`Expected an expression, got '${describe(tokens.current)}'`);
  }

  expression(): Expression {
    return this.#tokens.nested(() => this.#choice());
  }

  #choice(): Expression {
    let then = this.#or();
    while (this.#tokens.skip('name', 'if')) {
      const condition = this.#or();
      const otherwise = this.#tokens.skip('name', 'else') ? this.expression() : undefined;
      then = { kind: 'choice', condition, then, otherwise };
    }
    return then;
  }

  /** Parses an expression without a choice (`a if b else c`). */
  withoutChoice(): Expression {
    return this.#tokens.nested(() => this.#or());
  }

  #or(): Expression {
    let left = this.#and();
    while (this.#tokens.skip('name', 'or')) left = { kind: 'or', left, right: this.#and() };
    return left;
  }

  #and(): Expression {
    let left = this.#not();
    while (this.#tokens.skip('name', 'and')) left = { kind: 'and', left, right: this.#not() };
    return left;
  }

  #not(): Expression {
    if (!this.#tokens.skip('name', 'not')) return this.#comparison();
    return { kind: 'not', of: this.#tokens.nested(() => this.#not()) };
  }

  #comparison(): Expression {
    const first = this.#sum();
    const others: { operator: ComparisonOperator; operand: Expression }[] = [];
    for (let operator = this.#comparator(); operator !== undefined; operator = this.#comparator()) {
      others.push({ operator, operand: this.#sum() });
    }
    return others.length === 0 ? first : { kind: 'comparison', first, others };
  }

  #comparator(): ComparisonOperator | undefined {
    const tokens = this.#tokens;
    if (tokens.isOperator(...comparisons)) return tokens.next().text as ComparisonOperator;
    if (tokens.skip('name', 'in')) return 'in';
    const { following } = tokens;
    if (!tokens.isName('not') || following.type !== 'name' || following.text !== 'in') return undefined;
    tokens.next();
    tokens.next();
    return 'not in';
  }

  #operations(operators: readonly ArithmeticOperator[], operand: () => Expression): Expression {
    let left = operand();
    while (this.#tokens.isOperator(...operators)) {
      const operator = this.#tokens.next().text as ArithmeticOperator;
      left = { kind: 'operation', operator, left, right: operand() };
    }
    return left;
  }

  #sum(): Expression {
    return this.#operations(['+', '-'], () => this.#concatenation());
  }

  #concatenation(): Expression {
    const parts = [this.#product()];
    while (this.#tokens.skip('operator', '~')) parts.push(this.#product());
    return parts.length === 1 ? parts[0]! : { kind: 'concatenation', parts };
  }

  #product(): Expression {
    return this.#operations(['*', '/', '//', '%'], () => this.#power());
  }

  #power(): Expression {
    return this.#operations(['**'], () => this.#unary());
  }

  #unary(filters = true): Expression {
    const tokens = this.#tokens;
    let of: Expression;
    if (tokens.isOperator('-', '+')) {
      const kind = tokens.next().text === '-' ? 'negative' : 'positive';
      of = { kind, of: tokens.nested(() => this.#unary(false)) };
    } else of = this.#primary();
    of = this.#postfix(of);
    return filters ? this.#filtersAndTests(of) : of;
  }

  #primary(): Expression {
    const tokens = this.#tokens;
    const token = tokens.next();
    switch (token.type) {
      case 'name': {
        const value = constants.get(token.text);
        if (value !== undefined) return { kind: 'constant', value };
        this.#onName(token.text);
        return { kind: 'name', name: token.text };
      }
      case 'string': {
        let value = token.text;
        while (tokens.is('string')) value += tokens.next().text;
        return { kind: 'constant', value };
      }
      case 'integer':
        return { kind: 'constant', value: BigInt(token.text) };
      case 'float':
        return { kind: 'constant', value: Number(token.text) };
      default:
    }
    if (token.type === 'operator') {
      if (token.text === '(') return this.#parenthesized();
      if (token.text === '[') return { kind: 'list', items: this.#items(']', () => this.expression()) };
      if (token.text === '{') return { kind: 'dict', entries: this.#items('}', () => this.#entry()) };
    }
    return tokens.fail(`unexpected '${describe(token)}'`, token.line);
  }

  #parenthesized(): Expression {
    const inside = this.#tokens.nested(() => this.tuple({ mayBeEmpty: true }));
    this.#tokens.expect('operator', ')');
    return inside;
  }

  #items<T>(close: string, item: () => T): readonly T[] {
    const items: T[] = [];
    while (!this.#tokens.isOperator(close)) {
      if (items.length > 0) this.#tokens.expect('operator', ',');
      if (this.#tokens.isOperator(close)) break;
      items.push(item());
    }
    this.#tokens.next();
    return items;
  }

  #entry(): readonly [Expression, Expression] {
    const key = this.expression();
    this.#tokens.expect('operator', ':');
    return [key, this.expression()];
  }

  /** Parses the attributes (`.a`), items (`[0]`) and calls (`()`) that follow an expression. */
  #postfix(start: Expression): Expression {
    let of = start;
    for (;;) {
      if (this.#tokens.skip('operator', '.')) of = this.#attribute(of);
      else if (this.#tokens.skip('operator', '[')) of = this.#item(of);
      else if (this.#tokens.isOperator('(')) of = { kind: 'call', of, args: this.#arguments() };
      else return of;
    }
  }

  #attribute(of: Expression): Expression {
    const token = this.#tokens.next();
    if (token.type === 'name') return { kind: 'attribute', of, name: token.text };
    if (token.type !== 'integer') this.#tokens.fail('expected name or number', token.line);
    return { kind: 'item', of, at: { kind: 'constant', value: BigInt(token.text) } };
  }

  #item(of: Expression): Expression {
    const tokens = this.#tokens;
    const bounds: (Expression | undefined)[] = [];
    const bound = () => (tokens.isOperator(':', ']') ? undefined : this.expression());
    const first = bound();
    if (first === undefined && tokens.skip('operator', ']'))
      return { kind: 'item', of, at: { kind: 'tuple', items: [] } };
    if (first !== undefined && !tokens.isOperator(':')) {
      const items = [first];
      while (tokens.skip('operator', ',')) items.push(this.expression());
      tokens.expect('operator', ']');
      return { kind: 'item', of, at: items.length === 1 ? first : { kind: 'tuple', items } };
    }
    bounds.push(first);
    while (bounds.length < 3 && tokens.skip('operator', ':')) bounds.push(bound());
    if (bounds.length === 1) tokens.fail(`unexpected '${describe(tokens.current)}'`);
    tokens.expect('operator', ']');
    return { kind: 'slice', of, bounds };
  }

  #filtersAndTests(start: Expression): Expression {
    let of = start;
    for (;;) {
      if (this.#tokens.skip('operator', '|')) of = this.filter(of);
      else if (this.#tokens.skip('name', 'is')) of = this.#test(of);
      else if (this.#tokens.isOperator('(')) of = { kind: 'call', of, args: this.#arguments() };
      else return of;
    }
  }

  #dottedName(): string {
    let { text } = this.#tokens.expect('name');
    while (this.#tokens.skip('operator', '.')) text += `.${this.#tokens.expect('name').text}`;
    return text;
  }

  /** Parses a filter after its `|`. */
  filter(of: Expression | undefined): FilterNode {
    const name = this.#dottedName();
    const args = this.#tokens.isOperator('(') ? this.#arguments() : noArguments;
    return { kind: 'filter', of, name, args };
  }

  #test(of: Expression): Expression {
    const tokens = this.#tokens;
    const isNegated = tokens.skip('name', 'not');
    const name = this.#dottedName();
    let args = noArguments;
    if (tokens.isOperator('(')) args = this.#arguments();
    else if (this.#startsOperand()) {
      if (tokens.isName('is')) tokens.fail('You cannot chain multiple tests with is');
      args = { positional: [this.#postfix(this.#primary())], named: [] };
    }
    const test = { kind: 'test', of, name, args } as const;
    return isNegated ? { kind: 'not', of: test } : test;
  }

  #startsOperand(): boolean {
    const tokens = this.#tokens;
    if (tokens.is('name')) return !tokens.isName('else', 'or', 'and');
    return tokens.is('string') || tokens.is('integer') || tokens.is('float') || tokens.isOperator('[', '{');
  }

  #arguments(): Arguments {
    const tokens = this.#tokens;
    const { line } = tokens.expect('operator', '(');
    const positional: Expression[] = [];
    const named: (readonly [string, Expression])[] = [];
    let list: Expression | undefined;
    let dict: Expression | undefined;
    const ensure = (isRight: boolean) => {
      if (!isRight) tokens.fail('invalid syntax for function call expression', line);
    };
    this.#items(')', () => {
      if (tokens.skip('operator', '*')) {
        ensure(list === undefined && dict === undefined);
        list = this.expression();
      } else if (tokens.skip('operator', '**')) {
        ensure(dict === undefined);
        dict = this.expression();
      } else if (tokens.is('name') && tokens.following.type === 'operator' && tokens.following.text === '=') {
        ensure(dict === undefined);
        const name = tokens.next().text;
        tokens.next();
        named.push([name, this.expression()]);
      } else {
        ensure(list === undefined && dict === undefined && named.length === 0);
        positional.push(this.expression());
      }
    });
    return { positional, named, list, dict };
  }
}
