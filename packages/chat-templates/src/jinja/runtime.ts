import type { CallArguments, Value } from './values.js';

/** The state that operations, filters and functions share during one rendering. */
export interface Runtime {
  readonly budget: Budget;
  /**
   * Returns true if printing this list or dict is an error, because a model would otherwise learn the printed
   * form as text.
   */
  readonly hasNoText: (value: object) => boolean;
  /** Computes `value.name`. */
  readonly attribute: (value: Value, name: string) => Value;
  /** Computes `value[key]`. */
  readonly item: (value: Value, key: Value) => Value;
  readonly callFilter: (name: string, value: Value, args: CallArguments) => Value;
  readonly callTest: (name: string, value: Value, args: CallArguments) => boolean;
}

/**
 * The maximum number of steps of one rendering. A step evaluates a node, or makes or compares one element.
 */
const maximumSteps = 5_000_000;
/** The maximum number of characters that one rendering may make or read, including its result. */
const maximumCharacters = 2 ** 28;
/** The maximum nesting depth of nodes and of macro calls. */
const maximumDepth = 1000;

/**
 * Limits the resources of one rendering, because templates come with downloaded models. Every rendering ends
 * before the process runs out of memory, at the same point on every machine. A conversation of a thousand
 * turns uses less than a tenth of the budget.
 */
export class Budget {
  #steps = 0;
  #characters = 0;
  #depth = 0;

  /**
   * Counts steps.
   * @throws TemplateError if rendering has taken too many steps
   */
  step(count = 1): void {
    this.#steps += count;
    if (this.#steps > maximumSteps) throw tooMuch(maximumSteps, 'steps');
  }

  /**
   * Counts characters that rendering is about to make, or has read.
   * @throws TemplateError if rendering has made or read too many characters
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

/**
 * An error of a template or of its variables. If Python's Jinja reports the same error, the message is also
 * the same.
 */
export class TemplateError extends Error {
  /**
   * The line in the template, from 1. Undefined for errors that the template raises itself
   * (`raise_exception`).
   */
  line: number | undefined;

  constructor(message: string, line?: number) {
    super(message);
    this.line = line;
  }
}

/** The error of a template that rejects its input with `raise_exception`. */
export class RaisedError extends TemplateError {}
