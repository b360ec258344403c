import type { Routine } from './nodes.js';
import { TemplateError } from './template-error.js';
import { type CallArguments, Dict, PythonObject, Tuple, Undefined, type Value, valueOr } from './values.js';

/** What a macro is called with, by the names of its parameters. */
export type MacroArguments = ReadonlyMap<string, Value | undefined>;

/** A macro, or the body of a call block (`caller`). */
export class Macro extends PythonObject {
  readonly typeName = 'Macro';
  readonly #name: string | undefined;
  readonly #routine: Routine;
  override readonly call: (args: CallArguments) => Value;

  /** @param render renders the body; what a parameter has no argument for is undefined */
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
