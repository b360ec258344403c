import { Budget } from './budget.js';
import { Evaluator } from './evaluator.js';
import { globals } from './globals.js';
import { Loop } from './loop.js';
import { Macro, type MacroArguments } from './macro.js';
import type { ForNode, Routine, Statement, Target } from './nodes.js';
import { elementsOf, isTrue } from './operations.js';
import { textOf } from './printing.js';
import { Scope } from './scope.js';
import { TemplateError } from './template-error.js';
import { Namespace, Undefined, type Value } from './values.js';

export interface RendererOptions {
  /** What the template is given. */
  readonly context: ReadonlyMap<string, Value>;
  /** Lists and dicts that have no text of their own. */
  readonly hasNoText: (value: object) => boolean;
  /** Put around what the assistant says. */
  readonly marks: { readonly start: string; readonly end: string };
}

/** How a body ended: at its end, or by a statement of the loop around it. */
type Ending = 'end' | 'break' | 'continue';

/** Renders a template once. */
export class Renderer {
  readonly #budget = new Budget();
  readonly #evaluator: Evaluator;
  readonly #scope: Scope;
  readonly #marks: RendererOptions['marks'];
  #output: string[] = [];
  #line = 1;

  constructor({ context, hasNoText, marks }: RendererOptions) {
    this.#evaluator = new Evaluator(this.#budget, hasNoText);
    this.#marks = marks;
    this.#scope = new Scope(new Scope(undefined, globals(this.#evaluator)), context);
  }

  /** @throws TemplateError with the line */
  render(body: readonly Statement[]): string {
    try {
      this.#body(body, this.#scope);
      return this.#output.join('');
    } catch (error) {
      const known =
        error instanceof RangeError
          ? new TemplateError('is nested too deeply, or calls itself endlessly')
          : error;
      if (known instanceof TemplateError) known.line ??= this.#line;
      throw known;
    }
  }

  #write(text: string): void {
    this.#budget.step();
    this.#budget.characters(text.length);
    this.#output.push(text);
  }

  #body(body: readonly Statement[], scope: Scope): Ending {
    for (const statement of body) {
      this.#line = statement.line;
      this.#budget.step();
      const ending = this.#statement(statement, scope);
      if (ending !== 'end') return ending;
    }
    return 'end';
  }

  /** The text of a body, which is not written. */
  #captured(body: readonly Statement[], scope: Scope): string {
    const output = this.#output;
    this.#output = [];
    this.#budget.enter();
    this.#body(body, scope);
    this.#budget.leave();
    const text = this.#output.join('');
    this.#output = output;
    return text;
  }

  #statement(statement: Statement, scope: Scope): Ending {
    switch (statement.kind) {
      case 'text':
        this.#write(statement.text);
        return 'end';
      case 'print':
        this.#write(textOf(this.#evaluator.value(statement.value, scope), this.#evaluator));
        return 'end';
      case 'if': {
        const isChosen = ({ condition }: (typeof statement.branches)[number]) =>
          isTrue(this.#evaluator.value(condition, scope));
        return this.#inner(statement.branches.find(isChosen)?.body ?? statement.otherwise, scope);
      }
      case 'for':
        this.#for(statement, { scope, value: this.#evaluator.value(statement.over, scope), depth: 0 });
        return 'end';
      case 'generation':
        this.#write(this.#marks.start);
        this.#inner(statement.body, new Scope(scope));
        this.#write(this.#marks.end);
        return 'end';
      case 'break':
      case 'continue':
        return statement.kind;
      default:
        this.#definition(statement, scope);
        return 'end';
    }
  }

  #inner(body: readonly Statement[], scope: Scope): Ending {
    this.#budget.enter();
    const ending = this.#body(body, scope);
    this.#budget.leave();
    return ending;
  }

  #definition(
    statement: Extract<Statement, { kind: 'set' | 'setBlock' | 'with' | 'macro' | 'call' | 'filterBlock' }>,
    scope: Scope,
  ): void {
    const evaluator = this.#evaluator;
    switch (statement.kind) {
      case 'set':
        this.#assign(statement.target, evaluator.value(statement.value, scope), scope);
        return;
      case 'setBlock': {
        const text = this.#captured(statement.body, new Scope(scope));
        const { filter } = statement;
        this.#assign(
          statement.target,
          filter === undefined ? text : evaluator.filter(filter, scope, text),
          scope,
        );
        return;
      }
      case 'with': {
        const inner = new Scope(scope);
        for (const { target, value } of statement.assignments) {
          this.#assign(target, evaluator.value(value, scope), inner);
        }
        this.#inner(statement.body, inner);
        return;
      }
      case 'macro':
        scope.set(statement.name, this.#macro(statement.name, statement.routine, scope));
        return;
      case 'call': {
        const caller = this.#macro(undefined, statement.routine, scope);
        const { call } = statement;
        const named = [...call.args.named, ['caller', { kind: 'constant', value: caller }] as const];
        const value = evaluator.value({ ...call, args: { ...call.args, named } }, scope);
        this.#write(textOf(value, evaluator));
        return;
      }
      case 'filterBlock': {
        const text = this.#captured(statement.body, new Scope(scope));
        this.#write(textOf(evaluator.filter(statement.filter, scope, text), evaluator));
      }
    }
  }

  #assign(target: Target, value: Value, scope: Scope): void {
    switch (target.kind) {
      case 'name':
        scope.set(target.name, value);
        return;
      case 'namespace': {
        const namespace = scope.get(target.name);
        if (!(namespace instanceof Namespace)) {
          throw new TemplateError('cannot assign attribute on non-namespace object');
        }
        namespace.attributes.set(target.attribute, value);
        return;
      }
      case 'tuple': {
        const values = elementsOf(value, this.#evaluator);
        const { length } = target.items;
        if (values.length > length) throw new TemplateError(`too many values to unpack (expected ${length})`);
        if (values.length < length) {
          throw new TemplateError(`not enough values to unpack (expected ${length}, got ${values.length})`);
        }
        for (const [index, item] of target.items.entries()) this.#assign(item, values[index]!, scope);
      }
    }
  }

  #for(
    node: ForNode,
    { scope, value, depth }: { readonly scope: Scope; readonly value: Value; readonly depth: number },
  ): void {
    const evaluator = this.#evaluator;
    let items = elementsOf(value, evaluator);
    const { filter } = node;
    if (filter !== undefined) {
      items = items.filter((item) => {
        const inner = new Scope(scope);
        this.#assign(node.target, item, inner);
        return isTrue(evaluator.value(filter, inner));
      });
    }
    const again = (value: Value) => this.#capturedLoop(node, { scope, value, depth: depth + 1 });
    const loop = new Loop(items, { depth, runtime: evaluator, again: node.isRecursive ? again : undefined });
    this.#budget.enter();
    for (const [index, item] of items.entries()) {
      loop.index = index;
      const inner = new Scope(scope, [['loop', loop]]);
      this.#assign(node.target, item, inner);
      // its scope
      this.#budget.step(4);
      if (this.#body(node.body, inner) === 'break') break;
    }
    if (items.length === 0) this.#body(node.otherwise, new Scope(scope));
    this.#budget.leave();
  }

  #capturedLoop(
    node: ForNode,
    options: { readonly scope: Scope; readonly value: Value; readonly depth: number },
  ): string {
    const output = this.#output;
    this.#output = [];
    this.#for(node, options);
    const text = this.#output.join('');
    this.#output = output;
    return text;
  }

  #macro(name: string | undefined, routine: Routine, scope: Scope): Macro {
    return new Macro(name, routine, (args) => {
      const line = this.#line;
      const text = this.#captured(routine.body, this.#scopeOf(routine, args, scope));
      this.#line = line;
      return text;
    });
  }

  #scopeOf({ parameters }: Routine, args: MacroArguments, scope: Scope): Scope {
    const inner = new Scope(scope);
    for (const [name, value] of args) if (value !== undefined) inner.set(name, value);
    for (const { name, fallback } of parameters) {
      if (args.get(name) !== undefined) continue;
      const value =
        fallback === undefined
          ? new Undefined(`parameter '${name}' was not provided`)
          : this.#evaluator.value(fallback, inner);
      inner.set(name, value);
    }
    return inner;
  }
}
