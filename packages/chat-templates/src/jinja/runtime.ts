import type { CallArguments, Value } from './values.js';

/** State that the functions of a template share while it is rendered. */
export interface Runtime {
  readonly budget: Budget;
  /** Returns whether a list or dict may not be printed: the model would learn its printed form as text. */
  readonly hasNoText: (value: object) => boolean;
  /** Computes `value.name`. */
  readonly attribute: (value: Value, name: string) => Value;
  /** Computes `value[key]`. */
  readonly item: (value: Value, key: Value) => Value;
  readonly callFilter: (name: string, value: Value, args: CallArguments) => Value;
  readonly callTest: (name: string, value: Value, args: CallArguments) => boolean;
}

/**
 * The maximum steps of one rendering. A step is an evaluated node, or an element that is made or compared.
 */
const maximumSteps = 5_000_000;
/** The maximum characters that one rendering may make or read, including its result. */
const maximumCharacters = 2 ** 28;
/** The maximum nesting of nodes and of calls of macros. */
const maximumDepth = 1000;

/**
 * Limits the resources of one rendering. Templates come with downloaded models: every rendering ends, at the
 * same point on every machine, before the process runs out of memory. A conversation of a thousand turns uses
 * less than a tenth of the budget.
 */
export class Budget {
  #steps = 0;
  #characters = 0;
  #depth = 0;

  /**
   * Counts steps.
   *
   * @throws TemplateError if there are too many
   */
  step(count = 1): void {
    this.#steps += count;
    if (this.#steps > maximumSteps) throw tooMuch(maximumSteps, 'steps');
  }

  /**
   * Counts characters before they are made, or after they are read.
   *
   * @throws TemplateError if there are too many
   */
  characters(count: number): void {
    this.#characters += count;
    if (this.#characters > maximumCharacters) throw tooMuch(maximumCharacters, 'characters');
  }

  enter(): void {
    this.#depth += 1;
    if (this.#depth > maximumDepth)
      throw new TemplateError('is nested too deeply, or calls itself endlessly');
  }

  leave(): void {
    this.#depth -= 1;
  }
}

const tooMuch = (limit: number, what: string): TemplateError =>
  new TemplateError(`takes more than ${limit.toLocaleString('en-US')} ${what}`);

/** An error of a template or of its variables, with the message of Python's Jinja if Python has one. */
export class TemplateError extends Error {
  /**
   * The line of the template, from 1; undefined for an error that the template raises itself
   * (`raise_exception`).
   */
  line: number | undefined;

  constructor(message: string, line?: number) {
    super(message);
    this.line = line;
  }
}

/** The error of a template that rejects its input by `raise_exception`. */
export class RaisedError extends TemplateError {}
