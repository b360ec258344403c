import { resolveAttribute, resolveItem } from './attributes-and-items.js';
import { filters, tests } from './filters-and-tests.js';
import type { Arguments, Expression, FilterNode } from './nodes.js';
import { compare, isTrue, listElements, makeDict, operate, signed } from './operations.js';
import { type Budget, type Runtime, TemplateError } from './runtime.js';
import { takeSlice } from './slices.js';
import { concatenated } from './text-filters.js';
import {
  type CallArguments,
  Dict,
  isText,
  PythonObject,
  plain,
  Tuple,
  typeName,
  Undefined,
  type Value,
  valueOr,
} from './values.js';

/** Evaluates the expressions of one rendering. */
export class Evaluator implements Runtime {
  readonly budget: Budget;
  readonly hasNoText: (value: object) => boolean;

  constructor(budget: Budget, hasNoText: (value: object) => boolean) {
    this.budget = budget;
    this.hasNoText = hasNoText;
  }

  readonly attribute = (value: Value, name: string): Value => resolveAttribute(value, name, this);
  readonly item = (value: Value, key: Value): Value => resolveItem(value, key, this);

  callFilter(name: string, value: Value, args: CallArguments): Value {
    const filter = filters.get(name);
    if (filter === undefined) throw new TemplateError(`No filter named '${name}'.`);
    this.budget.step();
    return filter(value, args, this);
  }

  callTest(name: string, value: Value, args: CallArguments): boolean {
    const test = tests.get(name);
    if (test === undefined) throw new TemplateError(`No test named '${name}'.`);
    this.budget.step();
    return test(value, args, this);
  }

  /** Applies a filter to the expression before it, or, in a filter block, to `text`, the block's text. */
  filter({ of, name, args }: FilterNode, scope: Scope, text?: string): Value {
    const value =
      of === undefined ? text! : of.kind === 'filter' ? this.filter(of, scope, text) : this.value(of, scope);
    return this.callFilter(name, value, this.#arguments(args, scope));
  }

  value(node: Expression, scope: Scope): Value {
    this.budget.step();
    this.budget.enter();
    const value = this.#value(node, scope);
    this.budget.leave();
    return value;
  }

  #value(node: Expression, scope: Scope): Value {
    switch (node.kind) {
      case 'constant':
        return node.value;
      case 'name':
        return valueOr(scope.get(node.name), () => new Undefined(`'${node.name}' is undefined`));
      case 'list':
        return node.items.map((item) => this.value(item, scope));
      case 'tuple':
        return new Tuple(node.items.map((item) => this.value(item, scope)));
      case 'dict':
        return makeDict(
          node.entries.map(([key, value]) => [this.value(key, scope), this.value(value, scope)]),
          this,
        );
      case 'attribute':
        return resolveAttribute(this.value(node.of, scope), node.name, this);
      case 'item':
        return resolveItem(this.value(node.of, scope), this.value(node.at, scope), this);
      case 'slice': {
        const bounds = node.bounds.map((bound) => (bound === undefined ? bound : this.value(bound, scope)));
        return takeSlice(this.value(node.of, scope), bounds, this);
      }
      case 'call':
        return this.call(this.value(node.of, scope), this.#arguments(node.args, scope));
      case 'filter':
        return this.filter(node, scope);
      case 'test':
        return this.callTest(node.name, this.value(node.of, scope), this.#arguments(node.args, scope));
      default:
        return this.#operation(node, scope);
    }
  }

  #operation(
    node: Extract<
      Expression,
      {
        kind:
          | 'not'
          | 'negative'
          | 'positive'
          | 'and'
          | 'or'
          | 'operation'
          | 'concatenation'
          | 'comparison'
          | 'choice';
      }
    >,
    scope: Scope,
  ): Value {
    switch (node.kind) {
      case 'not':
        return !isTrue(this.value(node.of, scope));
      case 'negative':
      case 'positive':
        return signed(this.value(node.of, scope), node.kind);
      case 'and':
      case 'or': {
        const left = this.value(node.left, scope);
        return isTrue(left) === (node.kind === 'or') ? left : this.value(node.right, scope);
      }
      case 'operation':
        return operate(node.operator, this.value(node.left, scope), this.value(node.right, scope), this);
      case 'concatenation':
        return concatenated(
          node.parts.map((part) => this.value(part, scope)),
          this,
        );
      case 'comparison':
        return this.#comparison(node, scope);
      case 'choice':
        if (isTrue(this.value(node.condition, scope))) return this.value(node.then, scope);
        if (node.otherwise !== undefined) return this.value(node.otherwise, scope);
        return new Undefined('the inline if-expression evaluated to false and no else section was defined.');
    }
  }

  #comparison(node: Extract<Expression, { kind: 'comparison' }>, scope: Scope): boolean {
    let left = this.value(node.first, scope);
    for (const { operator, operand } of node.others) {
      const right = this.value(operand, scope);
      if (!compare(operator, left, right, this)) return false;
      left = right;
    }
    return true;
  }

  #arguments({ positional, named, list, dict }: Arguments, scope: Scope): CallArguments {
    const values = positional.map((one) => this.value(one, scope));
    const byName = new Map(named.map(([name, one]) => [name, this.value(one, scope)]));
    if (list !== undefined) values.push(...listElements(this.value(list, scope), this));
    if (dict !== undefined) {
      const more = this.value(dict, scope);
      if (!(more instanceof Dict)) {
        throw new TemplateError(`argument after ** must be a mapping, not ${typeName(more)}`);
      }
      for (const [key, value] of more.entries()) {
        if (!isText(key)) throw new TemplateError('keywords must be strings');
        byName.set(plain(key), value);
      }
    }
    return { positional: values, named: byName };
  }

  call(callee: Value, args: CallArguments): Value {
    if (callee instanceof Undefined) throw new TemplateError(callee.message);
    if (callee instanceof PythonObject && callee.call !== undefined) return callee.call(args);
    throw new TemplateError(`'${typeName(callee)}' object is not callable`);
  }
}

/** Variables by name. A name that is missing in a scope is looked up in the enclosing scope. */
export class Scope {
  readonly #around: Scope | undefined;
  readonly #values: Map<string, Value>;

  constructor(around?: Scope, values: Iterable<readonly [string, Value]> = []) {
    this.#around = around;
    this.#values = new Map(values);
  }

  get(name: string): Value | undefined {
    const own = this.#values.get(name);
    return own === undefined ? this.#around?.get(name) : own;
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }
}
