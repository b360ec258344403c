import { boundArguments } from './arguments.js';
import { isEqual } from './operations.js';
import type { Runtime } from './runtime.js';
import { TemplateError } from './template-error.js';
import {
  type CallArguments,
  PythonFunction,
  PythonObject,
  Tuple,
  Undefined,
  type Value,
  valueOr,
} from './values.js';

/** The variable `loop` of a loop. */
export class Loop extends PythonObject {
  readonly typeName = 'LoopContext';
  readonly #items: readonly Value[];
  readonly #depth: number;
  readonly #runtime: Runtime;
  /** Counted from 0. */
  index = 0;
  #changed: Tuple | undefined;
  override readonly call: (args: CallArguments) => Value;

  /** @param again renders the loop with other items; undefined where it is not recursive */
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
