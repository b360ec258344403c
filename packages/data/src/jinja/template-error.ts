/**
 * What is wrong with a template, or with what it is given, in the words of Python's Jinja where it has any.
 */
export class TemplateError extends Error {
  /** The line of the template, from 1; undefined for what the template itself refuses (`raise_exception`). */
  line: number | undefined;

  constructor(message: string, line?: number) {
    super(message);
    this.line = line;
  }
}

/** The template's own refusal of what it is given. */
export class RaisedError extends TemplateError {}
