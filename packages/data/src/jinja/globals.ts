import { boundArguments } from './arguments.js';
import { dictOf, elementsOf } from './operations.js';
import { textOf } from './printing.js';
import type { Runtime } from './runtime.js';
import { strftime } from './strftime.js';
import { RaisedError, TemplateError } from './template-error.js';
import {
  type CallArguments,
  Dict,
  isText,
  Namespace,
  PythonFunction,
  PythonObject,
  plain,
  Range,
  typeName,
  type Value,
} from './values.js';

/** Elements of the longest range, as Jinja's sandbox has it. */
const maximumRange = 100_000n;

/** What every template can call. */
export function globals(runtime: Runtime): ReadonlyMap<string, Value> {
  const functions: Readonly<Record<string, (args: CallArguments) => Value>> = {
    range,
    dict: (args) => dict(args, runtime),
    namespace: (args) => namespace(args, runtime),
    cycler: ({ positional }) => new Cycler(positional),
    joiner: (args) => new Joiner(textOf(boundArguments('joiner', args, ['sep'])[0] ?? ', ', runtime)),
    raise_exception: (args) => {
      throw new RaisedError(textOf(boundArguments('raise_exception', args, ['message'], 1)[0]!, runtime));
    },
    strftime_now: (args) => {
      const [format] = boundArguments('strftime_now', args, ['format'], 1);
      const text = strftime(new Date(), textOf(format!, runtime));
      runtime.budget.characters(text.length);
      return text;
    },
    lipsum: () => {
      throw new TemplateError('lipsum() gives another text in each run');
    },
  };
  return new Map(Object.entries(functions).map(([name, call]) => [name, new PythonFunction(name, call)]));
}

function range({ positional, named }: CallArguments): Range {
  if (named.size > 0) throw new TemplateError('range() takes no keyword arguments');
  const bounds = positional.map((value) => {
    if (typeof value === 'bigint') return value;
    if (typeof value === 'boolean') return BigInt(value);
    throw new TemplateError(`'${typeName(value)}' object cannot be interpreted as an integer`);
  });
  if (bounds.length === 0 || bounds.length > 3) {
    throw new TemplateError(`range expected 1 to 3 arguments, got ${bounds.length}`);
  }
  const [start, stop, by = 1n] = bounds.length === 1 ? [0n, bounds[0]!] : [bounds[0]!, bounds[1]!, bounds[2]];
  if (by === 0n) throw new TemplateError('range() arg 3 must not be zero');
  const distance = by > 0n ? stop - start : start - stop;
  const size = by > 0n ? by : -by;
  const count = distance <= 0n ? 0n : (distance + size - 1n) / size;
  if (count > maximumRange) {
    throw new TemplateError(
      `Range too big. The sandbox blocks ranges larger than MAX_RANGE (${maximumRange}).`,
    );
  }
  return new Range({ start, stop, by, count: Number(count) });
}

/** The entries of a dict, or of pairs. */
function entriesOf(value: Value | undefined, runtime: Runtime): readonly (readonly [Value, Value])[] {
  if (value === undefined) return [];
  if (value instanceof Dict) return value.entries();
  return elementsOf(value, runtime).map((pair) => {
    const [key, one, ...others] = elementsOf(pair, runtime);
    if (key === undefined || one === undefined || others.length > 0) {
      throw new TemplateError('dictionary update sequence element is not a pair');
    }
    return [key, one];
  });
}

function dict({ positional, named }: CallArguments, runtime: Runtime): Dict {
  if (positional.length > 1) {
    throw new TemplateError(`dict expected at most 1 argument, got ${positional.length}`);
  }
  return dictOf([...entriesOf(positional[0], runtime), ...named], runtime);
}

function namespace(args: CallArguments, runtime: Runtime): Namespace {
  const attributes = dict(args, runtime)
    .entries()
    .map(([key, value]) => {
      if (isText(key)) return [plain(key), value] as const;
      throw new TemplateError('attribute name must be string');
    });
  return new Namespace(new Map(attributes));
}

/** Goes through values again and again. */
class Cycler extends PythonObject {
  readonly typeName = 'Cycler';
  readonly #items: readonly Value[];
  #at = 0;

  constructor(items: readonly Value[]) {
    super();
    if (items.length === 0) throw new TemplateError('at least one item has to be provided');
    this.#items = items;
  }

  override readonly attribute = (name: string): Value | undefined => {
    switch (name) {
      case 'current':
        return this.#items[this.#at]!;
      case 'next':
        return new PythonFunction('next', () => {
          const current = this.#items[this.#at]!;
          this.#at = (this.#at + 1) % this.#items.length;
          return current;
        });
      case 'reset':
        return new PythonFunction('reset', () => {
          this.#at = 0;
          return null;
        });
      default:
        return undefined;
    }
  };
}

/** Gives nothing at first, then the text between. */
class Joiner extends PythonObject {
  readonly typeName = 'Joiner';
  readonly #separator: string;
  #isUsed = false;

  constructor(separator: string) {
    super();
    this.#separator = separator;
  }

  override readonly call = (): Value => {
    if (this.#isUsed) return this.#separator;
    this.#isUsed = true;
    return '';
  };
}
