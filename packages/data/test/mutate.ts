import type { RandomState } from '../src/random/random-state.js';

/** Values that break parsers more often than random ones do. */
const wildBytes = [0x00, 0x01, 0x7f, 0x80, 0xff];

/**
 * A mutated copy of `bytes`: flips, overwrites, cuts, repeats, inserts; the same for the same random state.
 */
export function mutateBytes(bytes: Uint8Array, random: RandomState): Uint8Array {
  let mutated = Uint8Array.from(bytes);
  const rounds = 1 + random.interval(3);
  for (let round = 0; round < rounds && mutated.length > 0; round++) {
    const at = random.randint(0, mutated.length);
    const length = Math.min(mutated.length - at, 1 + random.interval(15));
    switch (random.interval(5)) {
      case 0:
        mutated[at]! ^= 1 << random.interval(7);
        break;
      case 1:
        mutated.fill(wildBytes[random.interval(wildBytes.length - 1)]!, at, at + length);
        break;
      case 2:
        mutated = mutated.slice(0, at);
        break;
      case 3:
        mutated = Uint8Array.from([...mutated.slice(0, at + length), ...mutated.slice(at)]);
        break;
      case 4:
        mutated = Uint8Array.from([...mutated.slice(0, at), ...mutated.slice(at + length)]);
        break;
      default:
        mutated = Uint8Array.from([...mutated.slice(0, at), random.interval(255), ...mutated.slice(at)]);
    }
  }
  return mutated;
}

const wildValues: readonly unknown[] = [
  null,
  true,
  -1,
  0,
  1.5,
  1e308,
  2 ** 31,
  4294967295,
  '',
  'x',
  '\u0000',
  '\ud800',
  '__proto__',
  [],
  {},
  [[]],
  { type: 'BPE' },
];

/**
 * A copy of a JSON value with one to three of its parts replaced, dropped, doubled or swapped for another
 * part.
 */
export function mutateJson(value: unknown, random: RandomState): unknown {
  const copy = structuredClone(value);
  const rounds = 1 + random.interval(2);
  for (let round = 0; round < rounds; round++) {
    const places: { holder: Record<string, unknown>; key: string }[] = [];
    collect(copy, places, 0);
    if (places.length === 0) return copy;
    // Half of the time near the root, where a change matters most.
    const { holder, key } =
      places[random.randint(0, random.interval(1) === 0 ? Math.min(60, places.length) : places.length)]!;
    const other = places[random.randint(0, places.length)]!;
    switch (random.interval(3)) {
      case 0:
        holder[key] = wildValues[random.interval(wildValues.length - 1)];
        break;
      case 1:
        delete holder[key];
        break;
      case 2:
        holder[key] = structuredClone(other.holder[other.key]);
        break;
      default:
        holder[`${key}x`] = structuredClone(holder[key]);
    }
  }
  return copy;
}

function collect(
  value: unknown,
  places: { holder: Record<string, unknown>; key: string }[],
  depth: number,
): void {
  if (typeof value !== 'object' || value === null || depth > 8) return;
  const holder = value as Record<string, unknown>;
  const keys = Object.keys(holder);
  for (const key of keys) places.push({ holder, key });
  for (const key of keys) collect(holder[key], places, depth + 1);
}
