import type { Random } from './random.js';

const jsonTokens = [
  '0',
  '-1',
  '1e999',
  '9007199254740993',
  'null',
  '[]',
  '{}',
  '""',
  '"F32"',
  '1.5',
  '[[[[',
  '\\u0000',
];

/**
 * Damages `bytes` as transfers, disks and editors do: bits, cuts, insertions, swapped ranges, edits of JSON.
 */
export function mutate(bytes: Uint8Array, random: Random): Uint8Array {
  const copy = Buffer.from(bytes);
  const at = random.below(Math.max(copy.length, 1));
  switch (random.below(8)) {
    case 0:
      copy[at] = (copy[at] ?? 0) ^ (1 << random.below(8));
      return copy;
    case 1:
      return copy.subarray(0, at);
    case 2:
      return copy.subarray(at);
    case 3:
      return Buffer.concat([copy.subarray(0, at), random.bytes(1 + random.below(16)), copy.subarray(at)]);
    case 4: {
      const length = 1 + random.below(32);
      return Buffer.concat([copy.subarray(0, at), copy.subarray(at + length)]);
    }
    case 5:
      return copy.fill(random.pick([0, 255]), at, Math.min(at + 1 + random.below(64), copy.length));
    case 6: {
      // A digit somewhere: offsets, shapes, the length of the header.
      const digits = [...copy.keys()].filter((index) => copy[index]! >= 0x30 && copy[index]! <= 0x39);
      if (digits.length > 0) copy[random.pick(digits)] = 0x30 + random.below(10);
      return copy;
    }
    default: {
      const text = copy.toString('latin1');
      const tokens = [...text.matchAll(/-?\d+|"[^"]*"|\[|\]|\{|\}|,|:/g)];
      if (tokens.length === 0) return copy;
      const token = random.pick(tokens);
      const edited =
        text.slice(0, token.index) + random.pick(jsonTokens) + text.slice(token.index + token[0].length);
      return Buffer.from(edited, 'latin1');
    }
  }
}
