import { characters, isPlane0 } from './printing.js';
import { type Runtime, TemplateError } from './runtime.js';
import {
  Dict,
  isList,
  isText,
  Markup,
  plain,
  Range,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from './values.js';

/** Computes `value[start:stop:step]`. */
export function takeSlice(value: Value, bounds: readonly (Value | undefined)[], runtime: Runtime): Value {
  if (value instanceof Undefined) throw new TemplateError(value.message);
  const [start, stop, step] = bounds.map(readBound);
  const by = step ?? 1n;
  if (by === 0n) throw new TemplateError('slice step cannot be zero');
  if (isText(value)) {
    const text = slicedText(plain(value), { start, stop, by }, runtime);
    return value instanceof Markup ? new Markup(text) : text;
  }
  const items = isList(value) ? value : value instanceof Tuple ? value.items : undefined;
  if (items !== undefined) {
    const chosen = listPlaces(items.length, { start, stop, by }).map((place) => items[place]!);
    runtime.budget.step(chosen.length);
    return isList(value) ? chosen : new Tuple(chosen);
  }
  if (value instanceof Range) {
    const places = listPlaces(value.count, { start, stop, by });
    const first = places[0] ?? 0;
    return new Range({
      start: value.at(first),
      stop: value.at(first) + BigInt(places.length) * by * value.by,
      by: value.by * by,
      count: places.length,
    });
  }
  throw new TemplateError(
    value instanceof Dict ? "unhashable type: 'slice'" : `'${typeName(value)}' object is not subscriptable`,
  );
}

function readBound(value: Value | undefined): bigint | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'bigint') return value;
  if (typeof value === 'boolean') return BigInt(value);
  throw new TemplateError('slice indices must be integers or None or have an __index__ method');
}

interface Slice {
  readonly start: bigint | undefined;
  readonly stop: bigint | undefined;
  readonly by: bigint;
}

/** Returns the start, the end and the step of a slice, given a sequence of `length` elements. */
function computeRange(length: number, { start, stop, by }: Slice) {
  const isBackward = by < 0n;
  const [least, most] = isBackward ? [-1, length - 1] : [0, length];
  const clamped = (bound: bigint | undefined, otherwise: number): number => {
    if (bound === undefined) return otherwise;
    const place = bound < 0n ? bound + BigInt(length) : bound;
    return place < BigInt(least) ? least : place > BigInt(most) ? most : Number(place);
  };
  return {
    first: clamped(start, isBackward ? most : least),
    end: clamped(stop, isBackward ? least : most),
    // no string or list is as long as 2^31, so larger steps have the same effect as 2^31
    step: by > 2n ** 31n ? 2 ** 31 : by < -(2n ** 31n) ? -(2 ** 31) : Number(by),
  };
}

function listPlaces(length: number, slice: Slice): readonly number[] {
  const { first, end, step } = computeRange(length, slice);
  const places: number[] = [];
  for (let place = first; step > 0 ? place < end : place > end; place += step) places.push(place);
  return places;
}

function slicedText(text: string, slice: Slice, runtime: Runtime): string {
  runtime.budget.characters(text.length);
  if (slice.by === 1n && isPlane0(text)) {
    const { first, end } = computeRange(text.length, slice);
    return text.slice(first, Math.max(first, end));
  }
  const all = characters(text, runtime);
  return listPlaces(all.length, slice)
    .map((place) => all[place])
    .join('');
}
