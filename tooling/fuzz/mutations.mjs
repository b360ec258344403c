// Damages files as transfers, disks, editors and faulty programs do. Random numbers determine all damage.

/** Random numbers that are determined by a string (mulberry32, with the string's hash as seed). */
export class Random {
  #state = 2166136261;

  constructor(text) {
    for (let i = 0; i < text.length; i++) this.#state = Math.imul(this.#state ^ text.charCodeAt(i), 16777619);
  }

  /** An integer from 0 to `limit` - 1. */
  below(limit) {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let value = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return Math.floor((((value ^ (value >>> 14)) >>> 0) / 2 ** 32) * limit);
  }

  pick(values) {
    return values[this.below(values.length)];
  }
}

const wildBytes = [0x00, 0x01, 0x7f, 0x80, 0xff];
const wildIntegers = [
  0n,
  1n,
  -1n,
  2n ** 31n - 1n,
  2n ** 31n,
  2n ** 32n - 1n,
  2n ** 53n,
  2n ** 63n - 1n,
  2n ** 63n,
];

const byteMutations = [
  (bytes, at, random) => {
    bytes[at] ^= 1 << random.below(8);
    return bytes;
  },
  (bytes, at, random) => {
    bytes[at] = random.pick(wildBytes);
    return bytes;
  },
  (bytes, at, random) =>
    bytes.fill(random.pick(wildBytes), at, Math.min(bytes.length, at + 1 + random.below(32))),
  (bytes, at) => bytes.subarray(0, at),
  (bytes, at, random) => Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1 + random.below(32))]),
  (bytes, at, random) => Buffer.concat([bytes.subarray(0, at + 1 + random.below(32)), bytes.subarray(at)]),
  (bytes, at, random) => {
    const inserted = Buffer.from(Array.from({ length: 1 + random.below(8) }, () => random.below(256)));
    return Buffer.concat([bytes.subarray(0, at), inserted, bytes.subarray(at)]);
  },
  (bytes, at, random) => {
    const wild = Buffer.alloc(8);
    wild.writeBigUInt64LE(BigInt.asUintN(64, random.pick(wildIntegers)));
    wild.copy(bytes, at, 0, random.pick([4, 8]));
    return bytes;
  },
  // changes a number in a text
  (bytes, _at, random) => {
    const digits = [...bytes.keys()].filter((i) => bytes[i] >= 0x30 && bytes[i] <= 0x39);
    if (digits.length > 0) bytes[random.pick(digits)] = 0x30 + random.below(10);
    return bytes;
  },
];

// template code that takes much time or memory, and fragments of the template syntax
const templatePieces = [
  ...['1000000000', '99999', '0', '-1', '1e308', "'x'", '[]', '{}', 'none', 'loop', 'messages', 'self', 'ns'],
  ...[
    ' * ',
    ' ** ',
    ' + ',
    ' ~ ',
    ' % ',
    ' | ',
    ' is ',
    ' in ',
    ' not ',
    ' if ',
    ' else ',
    '.',
    ',',
    '(',
    ')',
    '[',
    ']',
    ':',
  ],
  ...[
    '{{ ',
    ' }}',
    '{% ',
    ' %}',
    '{# ',
    ' #}',
    '-',
    "'",
    '"',
    '\\',
    '{% endfor %}',
    '{% endif %}',
    '{% raw %}',
  ],
  ...[
    'range(',
    ' | list',
    ' | tojson(indent=',
    ' | string',
    '.center(',
    '.replace(',
    '.format(',
    ' | batch(',
    '.split(',
  ],
  ...[
    '{% for i in range(99999) %}',
    '{% macro f() %}',
    '{{ f() }}',
    ' recursive',
    '{% set x = ',
    '{% generation %}',
  ],
];

/**
 * Returns a damaged copy of a template: with inserted template code, with repeated parts of the template, or
 * with the same damage as files of any format.
 */
export function mutateTemplate(bytes, random) {
  let text = bytes.toString('utf8');
  for (let round = random.below(4); round >= 0; round--) {
    const at = random.below(text.length + 1);
    const size = random.below(40);
    const [before, after] = [text.slice(0, at), text.slice(at)];
    text = random.pick([
      () => before + random.pick(templatePieces) + after,
      () => before + random.pick(templatePieces) + after.slice(size),
      () => before + after.slice(0, size).repeat(random.pick([2, 3, 300])) + after,
      () => text.replace(/\d+/, random.pick(['1000000000', '99999', '-1'])),
    ])();
  }
  return random.below(4) === 0 ? mutateBytes(Buffer.from(text), random) : Buffer.from(text);
}

/** Returns a damaged copy of `bytes`. Half of the damage is near the ends, where headers and footers are. */
export function mutateBytes(bytes, random) {
  let damaged = Buffer.from(bytes);
  for (let round = random.pick([0, 0, 0, 1, 2]); round >= 0 && damaged.length > 0; round--) {
    const { length } = damaged;
    const near = Math.min(length, 256);
    const at = [() => random.below(length), () => random.below(near), () => length - 1 - random.below(near)];
    damaged = random.pick(byteMutations)(damaged, random.pick([at[0], ...at])(), random);
  }
  return damaged;
}

const wildValues = [
  ...[null, true, -1, 0, 1.5, 1e308, 2 ** 31, 2 ** 32 - 1, 2 ** 53, '', 'x', '\u0000', '\ud800', '__proto__'],
  ...[[], {}, [[]], [null], { type: 'BPE' }],
];

const jsonMutations = [
  ({ holder, key }, _other, random) => {
    holder[key] = structuredClone(random.pick(wildValues));
  },
  ({ holder, key }) => {
    delete holder[key];
  },
  ({ holder, key }, other) => {
    holder[key] = structuredClone(other.holder[other.key]);
  },
  ({ holder, key }) => {
    holder[`${key}x`] = structuredClone(holder[key]);
  },
  ({ holder, key }, _other, random) => {
    if (typeof holder[key] === 'number') holder[key] += random.pick([1, -1, 0.5, 1000, 2 ** 24]);
  },
];

/** Returns a damaged copy of a JSON text. Sometimes its bytes are damaged instead of its values. */
export function mutateJson(bytes, random) {
  if (random.below(4) === 0) return mutateBytes(bytes, random);
  const root = { value: JSON.parse(bytes) };
  for (let round = random.pick([0, 0, 1, 2]); round >= 0; round--) {
    const places = [];
    collect(root, places, 0);
    // half of the changes are near the root, where a change matters most
    const place = places[random.below(random.below(2) === 0 ? Math.min(60, places.length) : places.length)];
    if (place === undefined) break;
    random.pick(jsonMutations)(place, random.pick(places), random);
  }
  return Buffer.from(JSON.stringify(root.value) ?? '');
}

function collect(value, places, depth) {
  if (typeof value !== 'object' || value === null || depth > 9) return;
  for (const key of Object.keys(value)) places.push({ holder: value, key });
  for (const key of Object.keys(value)) collect(value[key], places, depth + 1);
}
