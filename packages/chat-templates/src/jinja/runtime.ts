import type { CallArguments, Value } from './values.js';

/** State that the functions of a template share while it is rendered. */
export interface Runtime {
  readonly budget: Budget;
  /** True if a list or dict must not be printed: its printed form would be learnt as text. */
  readonly hasNoText: (value: object) => boolean;
  /** `value.name` */
  readonly attribute: (value: Value, name: string) => Value;
  /** `value[key]` */
  readonly item: (value: Value, key: Value) => Value;
  readonly callFilter: (name: string, value: Value, args: CallArguments) => Value;
  readonly callTest: (name: string, value: Value, args: CallArguments) => boolean;
}

/** Steps of one rendering: a node that is evaluated, an element that is made or compared. */
const maximumSteps = 5_000_000;
/** Characters of one rendering that are made or read, the result included. */
const maximumCharacters = 2 ** 28;
/** Nodes and calls of macros inside each other. */
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
   * @throws TemplateError once they are too many
   */
  step(count = 1): void {
    this.#steps += count;
    if (this.#steps > maximumSteps) throw tooMuch(maximumSteps, 'steps');
  }

  /**
   * Counts characters that are about to be made, or were read.
   *
   * @throws TemplateError once they are too many
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
 * The error of a template, or of its variables, in the words of Python's Jinja where there are any.
 */
export class TemplateError extends Error {
  /** The line of the template, from 1; undefined for the template's own refusals (`raise_exception`). */
  line: number | undefined;

  constructor(message: string, line?: number) {
    super(message);
    this.line = line;
  }
}

/** The template's own refusal of its input. */
export class RaisedError extends TemplateError {}
