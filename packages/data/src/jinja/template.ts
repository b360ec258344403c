import { type ParsedTemplate, parseTemplate } from './parse-template.js';
import { Renderer, type RendererOptions } from './renderer.js';

/** A template in Jinja, as the transformers library configures it, that always ends. */
export class Template {
  readonly #parsed: ParsedTemplate;

  /** @throws TemplateError for what is not Jinja, with the line */
  constructor(text: string) {
    this.#parsed = parseTemplate(text);
  }

  /** Whether it marks what the assistant says (`{% generation %}`). */
  get hasGeneration(): boolean {
    return this.#parsed.hasGeneration;
  }

  /** @throws TemplateError where it refuses what it is given, does what Python refuses, or takes too much */
  render(options: RendererOptions): string {
    return new Renderer(options).render(this.#parsed.body);
  }
}
