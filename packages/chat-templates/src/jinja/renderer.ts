import { boundArguments } from './arguments.js';
import { Evaluator, Scope } from './evaluator.js';
import { globals } from './globals.js';
import type { ForNode, Routine, Statement, Target } from './nodes.js';
import { isEqual, isTrue, listElements } from './operations.js';
import { type ParsedTemplate, parseTemplate } from './parse-template.js';
import { convertToText } from './printing.js';
import { Budget, type Runtime, TemplateError } from './runtime.js';
import {
  type CallArguments,
  Dict,
  Namespace,
  PythonFunction,
  PythonObject,
  Tuple,
  Undefined,
  type Value,
  valueOr,
} from './values.js';

interface RendererOptions {
  /** Values of the template's variables, by name. */
  readonly context: ReadonlyMap<string, Value>;
  /** Returns true if printing this list or dict is an error. */
  readonly hasNoText: (value: object) => boolean;
  /** The marks that are written before and after the assistant's text. */
  readonly marks: { readonly start: string; readonly end: string };
}

/**
 * How the statements of a body end: all statements have run, or a `break` or `continue` of the enclosing loop
 * has ended them.
 */
type Ending = 'end' | 'break' | 'continue';

/** One rendering of a template. */
class Renderer {
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

  /**
   * Renders statements.
   *
   * @throws TemplateError with the line
   */
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

  /** Renders a body and returns its text, without adding it to the output. */
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
        this.#write(convertToText(this.#evaluator.value(statement.value, scope), this.#evaluator));
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
        this.#write(convertToText(value, evaluator));
        return;
      }
      case 'filterBlock': {
        const text = this.#captured(statement.body, new Scope(scope));
        this.#write(convertToText(evaluator.filter(statement.filter, scope, text), evaluator));
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
        const values = listElements(value, this.#evaluator);
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
    let items = listElements(value, evaluator);
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
      // Making the scope of an iteration counts as four steps.
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
      const text = this.#captured(routine.body, this.#openScope(routine, args, scope));
      this.#line = line;
      return text;
    });
  }

  #openScope({ parameters }: Routine, args: MacroArguments, scope: Scope): Scope {
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

/** The variable `loop` that a template can read inside a loop. */
class Loop extends PythonObject {
  readonly typeName = 'LoopContext';
  readonly #items: readonly Value[];
  readonly #depth: number;
  readonly #runtime: Runtime;
  /** The index of the current iteration, from 0. */
  index = 0;
  #changed: Tuple | undefined;
  override readonly call: (args: CallArguments) => Value;

  /** @param again renders the loop with different items, for a recursive loop; otherwise undefined */
  constructor(
    items: readonly Value[],
    options: {
      readonly depth: number;
      readonly runtime: Runtime;
      readonly again: ((items: Value) => string) | undefined;
    },
  ) {
    super();
    this.#items = items;
    this.#depth = options.depth;
    this.#runtime = options.runtime;
    const { again } = options;
    this.call = (args) => {
      if (again !== undefined) return again(boundArguments('loop', args, ['iterable'], 1)[0]!);
      throw new TemplateError("The loop must have the 'recursive' marker to be called recursively.");
    };
  }

  override readonly length = () => this.#items.length;
  override readonly repr = () => `<LoopContext ${this.index + 1}/${this.#items.length}>`;

  override readonly attribute = (name: string): Value | undefined => {
    const [index, count] = [this.index, this.#items.length];
    switch (name) {
      case 'index':
        return BigInt(index + 1);
      case 'index0':
        return BigInt(index);
      case 'revindex':
        return BigInt(count - index);
      case 'revindex0':
        return BigInt(count - index - 1);
      case 'first':
        return index === 0;
      case 'last':
        return index === count - 1;
      case 'length':
        return BigInt(count);
      case 'depth':
        return BigInt(this.#depth + 1);
      case 'depth0':
        return BigInt(this.#depth);
      case 'previtem':
        return index > 0 ? this.#items[index - 1]! : new Undefined('there is no previous item');
      case 'nextitem':
        return valueOr(this.#items[index + 1], () => new Undefined('there is no next item'));
      case 'cycle':
        return new PythonFunction('cycle', ({ positional }) => {
          if (positional.length === 0) throw new TemplateError('no items for cycling given');
          return positional[index % positional.length]!;
        });
      case 'changed':
        return new PythonFunction('changed', ({ positional }) => this.#isChanged(new Tuple(positional)));
      default:
        return undefined;
    }
  };

  #isChanged(values: Tuple): boolean {
    const isSame = this.#changed !== undefined && isEqual(this.#changed, values, this.#runtime);
    this.#changed = values;
    return !isSame;
  }
}

/** A macro call's arguments, keyed by parameter name; undefined for a parameter without an argument. */
type MacroArguments = ReadonlyMap<string, Value | undefined>;

/** A macro, or the body of a call block (`caller`). */
class Macro extends PythonObject {
  readonly typeName = 'Macro';
  readonly #name: string | undefined;
  readonly #routine: Routine;
  override readonly call: (args: CallArguments) => Value;

  /** @param render renders the body, with undefined for parameters without an argument */
  constructor(name: string | undefined, routine: Routine, render: (args: MacroArguments) => string) {
    super();
    this.#name = name;
    this.#routine = routine;
    this.call = (args) => render(this.#bound(args));
  }

  override readonly repr = () => (this.#name === undefined ? '<Macro anonymous>' : `<Macro '${this.#name}'>`);

  override readonly attribute = (name: string): Value | undefined => {
    const { parameters, reads } = this.#routine;
    switch (name) {
      case 'name':
        return this.#name ?? null;
      case 'arguments':
        return new Tuple(parameters.map((parameter) => parameter.name));
      case 'catch_kwargs':
        return reads.has('kwargs');
      case 'catch_varargs':
        return reads.has('varargs');
      case 'caller':
        return reads.has('caller');
      default:
        return undefined;
    }
  };

  #bound({ positional, named }: CallArguments): MacroArguments {
    const { parameters, reads } = this.#routine;
    const others = new Map(named);
    const bound = new Map<string, Value | undefined>();
    for (const [index, { name }] of parameters.entries()) {
      if (index < positional.length) bound.set(name, positional[index]);
      else {
        bound.set(name, others.get(name));
        others.delete(name);
      }
    }
    if (reads.has('caller') && !bound.has('caller')) {
      bound.set(
        'caller',
        valueOr(others.get('caller'), () => new Undefined('No caller defined')),
      );
      others.delete('caller');
    }
    if (reads.has('kwargs') && !bound.has('kwargs')) bound.set('kwargs', Dict.of([...others]));
    else {
      const [other] = others.keys();
      if (other !== undefined) {
        throw new TemplateError(`macro '${this.#name}' takes no keyword argument '${other}'`);
      }
    }
    const more = positional.slice(parameters.length);
    if (reads.has('varargs') && !bound.has('varargs')) bound.set('varargs', new Tuple(more));
    else if (more.length > 0) {
      throw new TemplateError(`macro '${this.#name}' takes not more than ${parameters.length} argument(s)`);
    }
    return bound;
  }
}

/**
 * A Jinja template, rendered with the Jinja settings of the transformers library. A budget limits the
 * resources of every rendering.
 */
export class Template {
  readonly #parsed: ParsedTemplate;

  /** @throws TemplateError, which contains the line, if `text` is not valid Jinja */
  constructor(text: string) {
    this.#parsed = parseTemplate(text);
  }

  /** True if the template marks the assistant's text with `{% generation %}`. */
  get hasGeneration(): boolean {
    return this.#parsed.hasGeneration;
  }

  /**
   * Renders the template.
   * @throws TemplateError if the template rejects its variables, if Python would fail, or if rendering
   *   exceeds its budget
   */
  render(options: RendererOptions): string {
    return new Renderer(options).render(this.#parsed.body);
  }
}
