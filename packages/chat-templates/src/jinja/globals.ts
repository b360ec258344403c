import { boundArguments } from './arguments.js';
import { listElements, makeDict } from './operations.js';
import { convertToText } from './printing.js';
import { RaisedError, type Runtime, TemplateError } from './runtime.js';
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

/** The maximum length of a range, as in Jinja's sandbox. */
const maximumRange = 100_000n;

/** Functions that every template can call. */
export function globals(runtime: Runtime): ReadonlyMap<string, Value> {
  const functions: Readonly<Record<string, (args: CallArguments) => Value>> = {
    range,
    dict: (args) => dict(args, runtime),
    namespace: (args) => namespace(args, runtime),
    cycler: ({ positional }) => new Cycler(positional),
    joiner: (args) => new Joiner(convertToText(boundArguments('joiner', args, ['sep'])[0] ?? ', ', runtime)),
    raise_exception: (args) => {
      throw new RaisedError(
        convertToText(boundArguments('raise_exception', args, ['message'], 1)[0]!, runtime),
      );
    },
    strftime_now: (args) => {
      const [format] = boundArguments('strftime_now', args, ['format'], 1);
      const text = strftime(new Date(), convertToText(format!, runtime));
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

/** Returns the entries of a dict, or of a list of pairs. */
function listEntries(value: Value | undefined, runtime: Runtime): readonly (readonly [Value, Value])[] {
  if (value === undefined) return [];
  if (value instanceof Dict) return value.entries();
  return listElements(value, runtime).map((pair) => {
    const [key, one, ...others] = listElements(pair, runtime);
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
  return makeDict([...listEntries(positional[0], runtime), ...named], runtime);
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

/** An object that returns its values in turn, repeatedly. */
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

/** An object that returns an empty string at the first call, then its separator. */
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

const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const months = [
  ...['January', 'February', 'March', 'April', 'May', 'June', 'July'],
  ...['August', 'September', 'October', 'November', 'December'],
];

const padded = (value: number, width = 2, fill = '0'): string => String(value).padStart(width, fill);

/** Returns the number of days since the first of January. */
const dayOfYear = (time: Date): number =>
  Math.round(
    (Date.UTC(time.getFullYear(), time.getMonth(), time.getDate()) - Date.UTC(time.getFullYear(), 0, 1)) /
      86_400_000,
  );

/** Returns the number of the week in a year whose weeks begin on day `start` (0: Sunday). */
const weekOfYear = (time: Date, start: number): number =>
  Math.floor((dayOfYear(time) + 7 - ((time.getDay() + 7 - start) % 7)) / 7);

/** Returns the year and week of ISO 8601: a week belongs to the year that contains its Thursday. */
function isoWeek(time: Date): { readonly year: number; readonly week: number } {
  const thursday = new Date(time.getFullYear(), time.getMonth(), time.getDate() + 4 - (time.getDay() || 7));
  return { year: thursday.getFullYear(), week: Math.floor(dayOfYear(thursday) / 7) + 1 };
}

const fields: Readonly<Record<string, (time: Date) => string>> = {
  a: (time) => days[time.getDay()]!.slice(0, 3),
  A: (time) => days[time.getDay()]!,
  b: (time) => months[time.getMonth()]!.slice(0, 3),
  h: (time) => months[time.getMonth()]!.slice(0, 3),
  B: (time) => months[time.getMonth()]!,
  c: (time) => strftime(time, '%a %b %e %H:%M:%S %Y'),
  C: (time) => padded(Math.floor(time.getFullYear() / 100)),
  d: (time) => padded(time.getDate()),
  D: (time) => strftime(time, '%m/%d/%y'),
  e: (time) => padded(time.getDate(), 2, ' '),
  F: (time) => strftime(time, '%Y-%m-%d'),
  f: (time) => padded(time.getMilliseconds() * 1000, 6),
  G: (time) => String(isoWeek(time).year),
  H: (time) => padded(time.getHours()),
  I: (time) => padded(time.getHours() % 12 || 12),
  j: (time) => padded(dayOfYear(time) + 1, 3),
  k: (time) => padded(time.getHours(), 2, ' '),
  l: (time) => padded(time.getHours() % 12 || 12, 2, ' '),
  m: (time) => padded(time.getMonth() + 1),
  M: (time) => padded(time.getMinutes()),
  n: () => '\n',
  p: (time) => (time.getHours() < 12 ? 'AM' : 'PM'),
  r: (time) => strftime(time, '%I:%M:%S %p'),
  R: (time) => strftime(time, '%H:%M'),
  s: (time) => String(Math.floor(time.getTime() / 1000)),
  S: (time) => padded(time.getSeconds()),
  t: () => '\t',
  T: (time) => strftime(time, '%H:%M:%S'),
  u: (time) => String(time.getDay() || 7),
  U: (time) => padded(weekOfYear(time, 0)),
  V: (time) => padded(isoWeek(time).week),
  w: (time) => String(time.getDay()),
  W: (time) => padded(weekOfYear(time, 1)),
  x: (time) => strftime(time, '%m/%d/%y'),
  X: (time) => strftime(time, '%H:%M:%S'),
  y: (time) => padded(time.getFullYear() % 100),
  Y: (time) => String(time.getFullYear()),
  // A time from Python's `datetime.now()` has no time zone.
  z: () => '',
  Z: () => '',
  '%': () => '%',
};

/** Computes Python's `time.strftime(format)` in the locale C; `%-d` leaves out the padding of a number. */
const strftime = (time: Date, format: string): string =>
  format.replace(/%(-?)([a-zA-Z%])/g, (whole, bare: string, letter: string) => {
    const field = fields[letter]?.(time);
    if (field === undefined) return whole;
    return bare === '' ? field : field.replace(/^[0 ]+(?=.)/, '');
  });
