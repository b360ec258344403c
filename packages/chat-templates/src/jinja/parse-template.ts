import { TokenStream, tokenize } from './lexer.js';
import type { Expression, FilterNode, Routine, Statement, Target } from './nodes.js';
import { ExpressionParser } from './parse-expression.js';

/** A parsed template, ready to be rendered. */
export interface ParsedTemplate {
  readonly body: readonly Statement[];
  /** True if the template marks the assistant's text. */
  readonly hasGeneration: boolean;
}

/**
 * Parses a template.
 * @throws TemplateError, which contains the line; also for a template that uses other templates (`include`,
 *   `import`, `extends`)
 */
export function parseTemplate(text: string): ParsedTemplate {
  return new TemplateParser(new TokenStream(tokenize(text))).parse();
}

const specialParameters = ['caller', 'varargs', 'kwargs'];
const ofSeveralTemplates = ['block', 'extends', 'include', 'import', 'from'];

class TemplateParser {
  readonly #tokens: TokenStream;
  readonly #expressions: ExpressionParser;
  /** The names that each enclosing macro or call block has read so far; the innermost block is last. */
  readonly #reads: Set<string>[] = [];
  #numLoops = 0;
  #hasGeneration = false;

  constructor(tokens: TokenStream) {
    this.#tokens = tokens;
    this.#expressions = new ExpressionParser(tokens, (name) => {
      for (const names of this.#reads) names.add(name);
    });
  }

  parse(): ParsedTemplate {
    return { body: this.#statements([]), hasGeneration: this.#hasGeneration };
  }

  /**
   * Parses statements until a tag whose name is in `ends`. Afterwards, the current token is the name of this
   * tag.
   */
  #statements(ends: readonly string[]): readonly Statement[] {
    const tokens = this.#tokens;
    const body: Statement[] = [];
    for (;;) {
      const { line } = tokens.current;
      if (tokens.is('end')) {
        if (ends.length === 0) return body;
        tokens.fail(`Unexpected end of template. Jinja was looking for the following tags: ${quoted(ends)}.`);
      }
      if (tokens.is('data')) body.push({ kind: 'text', text: tokens.next().text, line });
      else if (tokens.is('variableBegin')) {
        tokens.next();
        body.push({ kind: 'print', value: this.#expressions.tuple(), line });
        tokens.expect('variableEnd');
      } else {
        tokens.expect('blockBegin');
        if (tokens.isName(...ends)) return body;
        body.push(...tokens.nested(() => this.#statement(ends)));
        tokens.expect('blockEnd');
      }
    }
  }

  /** Parses the statements between the current tag and the next tag whose name is in `ends`. */
  #body(...ends: readonly string[]): readonly Statement[] {
    this.#tokens.skip('operator', ':');
    this.#tokens.expect('blockEnd');
    return this.#statements(ends);
  }

  /** Parses a body, and skips the tag at its end. */
  #bodyUpTo(end: string): readonly Statement[] {
    const body = this.#body(end);
    this.#tokens.next();
    return body;
  }

  #statement(ends: readonly string[]): readonly Statement[] {
    const tokens = this.#tokens;
    const { line } = tokens.current;
    const { text: name } = tokens.is('name') ? tokens.next() : tokens.fail('tag name expected');
    switch (name) {
      case 'for':
        return [{ ...this.#for(), line }];
      case 'if':
        return [{ ...this.#if(), line }];
      case 'set':
        return [{ ...this.#set(), line }];
      case 'with':
        return [{ ...this.#with(), line }];
      case 'macro':
        return [
          { kind: 'macro', name: tokens.expect('name').text, routine: this.#routine('endmacro'), line },
        ];
      case 'call':
        return [{ ...this.#call(), line }];
      case 'filter': {
        const filter = this.#filters(this.#expressions.filter(undefined));
        return [{ kind: 'filterBlock', filter, body: this.#bodyUpTo('endfilter'), line }];
      }
      case 'generation':
        this.#hasGeneration = true;
        return [{ kind: 'generation', body: this.#bodyUpTo('endgeneration'), line }];
      case 'print':
        return this.#print(line);
      case 'break':
      case 'continue':
        if (this.#numLoops === 0) tokens.fail(`'${name}' outside loop`, line);
        return [{ kind: name, line }];
      default:
    }
    if (ofSeveralTemplates.includes(name)) {
      tokens.fail(`{% ${name} %} is for templates of several files, which chat templates are not`, line);
    }
    const looking = ends.length === 0 ? '' : ` Jinja was looking for the following tags: ${quoted(ends)}.`;
    return tokens.fail(`Encountered unknown tag '${name}'.${looking}`, line);
  }

  #for() {
    const tokens = this.#tokens;
    const target = this.#target({ end: 'in' });
    if (listNames(target).includes('loop')) {
      tokens.fail("Can't assign to special loop variable in for-loop target");
    }
    tokens.expect('name', 'in');
    const over = this.#expressions.tuple({ choices: false, end: 'recursive' });
    const filter = tokens.skip('name', 'if') ? this.#expressions.expression() : undefined;
    const isRecursive = tokens.skip('name', 'recursive');
    this.#numLoops += 1;
    const body = this.#body('endfor', 'else');
    this.#numLoops -= 1;
    const otherwise = tokens.next().text === 'else' ? this.#bodyUpTo('endfor') : [];
    return { kind: 'for', target, over, filter, isRecursive, body, otherwise } as const;
  }

  #if() {
    const branches = [];
    for (;;) {
      const condition = this.#expressions.tuple({ choices: false });
      branches.push({ condition, body: this.#body('elif', 'else', 'endif') });
      const { text } = this.#tokens.next();
      if (text === 'elif') continue;
      const otherwise = text === 'else' ? this.#bodyUpTo('endif') : [];
      return { kind: 'if', branches, otherwise } as const;
    }
  }

  #set() {
    const target = this.#target({ namespaces: true });
    if (this.#tokens.skip('operator', '=')) {
      return { kind: 'set', target, value: this.#expressions.tuple() } as const;
    }
    const filter = this.#tokens.skip('operator', '|')
      ? this.#filters(this.#expressions.filter(undefined))
      : undefined;
    return { kind: 'setBlock', target, filter, body: this.#bodyUpTo('endset') } as const;
  }

  /** Parses the filters after the first filter of a filter block. */
  #filters(first: FilterNode): FilterNode {
    let filter = first;
    while (this.#tokens.skip('operator', '|')) filter = this.#expressions.filter(filter);
    return filter;
  }

  #with() {
    const assignments: { target: Target; value: Expression }[] = [];
    while (!this.#tokens.is('blockEnd')) {
      if (assignments.length > 0) this.#tokens.expect('operator', ',');
      const target = this.#target({ isOne: true });
      this.#tokens.expect('operator', '=');
      assignments.push({ target, value: this.#expressions.expression() });
    }
    return { kind: 'with', assignments, body: this.#bodyUpTo('endwith') } as const;
  }

  #print(line: number): readonly Statement[] {
    const printed: Statement[] = [];
    while (!this.#tokens.is('blockEnd')) {
      if (printed.length > 0) this.#tokens.expect('operator', ',');
      printed.push({ kind: 'print', value: this.#expressions.expression(), line });
    }
    return printed;
  }

  #call() {
    const tokens = this.#tokens;
    const parameters = tokens.isOperator('(') ? this.#parameters() : [];
    const { line } = tokens.current;
    const call = this.#expressions.expression();
    if (call.kind !== 'call') return tokens.fail('expected call', line);
    return { kind: 'call', call, routine: this.#routineBody(parameters, 'endcall') } as const;
  }

  #routine(end: string): Routine {
    return this.#routineBody(this.#parameters(), end);
  }

  #parameters(): Routine['parameters'] {
    const tokens = this.#tokens;
    const parameters: { name: string; fallback: Expression | undefined }[] = [];
    tokens.expect('operator', '(');
    while (!tokens.isOperator(')')) {
      if (parameters.length > 0) tokens.expect('operator', ',');
      const { text: name } = tokens.expect('name');
      const fallback = tokens.skip('operator', '=') ? this.#expressions.expression() : undefined;
      if (fallback === undefined && parameters.at(-1)?.fallback !== undefined) {
        tokens.fail('non-default argument follows default argument');
      }
      parameters.push({ name, fallback });
    }
    tokens.next();
    return parameters;
  }

  #routineBody(parameters: Routine['parameters'], end: string): Routine {
    const names = new Set<string>();
    this.#reads.push(names);
    const numLoops = this.#numLoops;
    this.#numLoops = 0;
    const body = this.#bodyUpTo(end);
    this.#numLoops = numLoops;
    this.#reads.pop();
    return { parameters, body, reads: new Set(specialParameters.filter((name) => names.has(name))) };
  }

  #target(options: {
    readonly end?: string;
    readonly namespaces?: boolean;
    readonly isOne?: boolean;
  }): Target {
    const { end, namespaces = false, isOne = false } = options;
    const tokens = this.#tokens;
    const items: Target[] = [];
    let isTuple = false;
    const isOver = () =>
      tokens.is('blockEnd') || tokens.isOperator(')', '=') || (end !== undefined && tokens.isName(end));
    while (!isOver()) {
      items.push(this.#oneTarget(namespaces));
      if (isOne || !tokens.skip('operator', ',')) break;
      isTuple = true;
    }
    if (isTuple) return { kind: 'tuple', items };
    return items[0] ?? tokens.fail('a name to assign to is missing');
  }

  #oneTarget(namespaces: boolean): Target {
    const tokens = this.#tokens;
    if (tokens.skip('operator', '(')) {
      const inside = tokens.nested(() => this.#target({ namespaces }));
      tokens.expect('operator', ')');
      return inside;
    }
    if (!tokens.is('name')) tokens.fail("can't assign to what is not a name");
    const { text: name, line } = tokens.next();
    if (namespaces && tokens.skip('operator', '.')) {
      return { kind: 'namespace', name, attribute: tokens.expect('name').text };
    }
    if (['true', 'True', 'false', 'False', 'none', 'None'].includes(name)) {
      tokens.fail(`can't assign to '${name}'`, line);
    }
    return { kind: 'name', name };
  }
}

const quoted = (names: readonly string[]): string => names.map((name) => `'${name}'`).join(' or ');

function listNames(target: Target): readonly string[] {
  return target.kind === 'tuple' ? target.items.flatMap(listNames) : [target.name];
}
