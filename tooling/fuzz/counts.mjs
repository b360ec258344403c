// Makes files in which one count is much too large. A reader must not fill memory if a file declares more
// data than it contains.
import { crc32 } from 'node:zlib';

/** The values that replace each count. JavaScript cannot distinguish 2^53 from the next larger integer. */
export const largeCounts = [1e6, 3e7, 1e12, 2 ** 53];

/** The maximum number of values to change in a sequence, such as the ids of a vocabulary. */
const mostOfRow = 3;
const longRow = 24;

/**
 * Returns copies of a file, each with one large count.
 * @param {Buffer} bytes
 * @param {string} file the name of the file, which indicates its format
 * @returns {{ readonly where: string, readonly bytes: Buffer }[]}
 */
export function withLargeCounts(bytes, file) {
  const places = findPlaces(bytes, file);
  return places.flatMap(({ where, replaced }) =>
    largeCounts.map((count) => ({ where: `${where} = ${count}`, bytes: replaced(count) })),
  );
}

function findPlaces(bytes, file) {
  if (file.endsWith('.json')) return placesInJson(JSON.parse(bytes), (text) => Buffer.from(text));
  if (file.endsWith('.safetensors')) return placesInSafetensors(bytes);
  if (file.endsWith('.idx')) return placesInIndex(bytes);
  if (file.endsWith('.gguf')) return placesInGguf(bytes);
  if (file.endsWith('.jinja')) return placesInText(bytes.toString('utf8'));
  // such a file consists of several archives, each with the pickle of one tensor
  if (file.endsWith('.distcp')) return [];
  if (bytes.subarray(0, 4).toString('latin1') === 'PK\x03\x04') return placesInZip(bytes);
  return bytes[0] === 0x80 ? placesInPickle(bytes, (pickle) => pickle) : [];
}

function placesInJson(root, encode) {
  const places = [];
  const walk = (holder, path) => {
    const keys = Object.keys(holder);
    const numbers = keys.filter((key) => Number.isInteger(holder[key]) && holder[key] > 0);
    for (const key of numbers.length > longRow ? numbers.slice(0, mostOfRow) : numbers) {
      const replaced = (count) => {
        const own = holder[key];
        holder[key] = count;
        const text = JSON.stringify(root);
        holder[key] = own;
        return encode(text);
      };
      places.push({ where: [...path, key].join('.'), replaced });
    }
    const inner = keys.filter((key) => typeof holder[key] === 'object' && holder[key] !== null);
    for (const key of inner.length > longRow ? inner.slice(0, mostOfRow) : inner)
      walk(holder[key], [...path, key]);
  };
  walk(root, []);
  return places;
}

function placesInSafetensors(bytes) {
  const length = Number(bytes.readBigUInt64LE());
  const data = bytes.subarray(8 + length);
  const withHeader = (text) => {
    const size = Buffer.alloc(8);
    size.writeBigUInt64LE(BigInt(Buffer.byteLength(text)));
    return Buffer.concat([size, Buffer.from(text), data]);
  };
  const header = JSON.parse(bytes.subarray(8, 8 + length));
  return [wide(bytes, 0, 'header bytes'), ...placesInJson(header, withHeader)];
}

/** Returns a place at which a file has a 64-bit integer. */
const wide = (bytes, at, where) => ({
  where,
  replaced: (count) => {
    const copy = Buffer.from(bytes);
    copy.writeBigUInt64LE(BigInt(count), at);
    return copy;
  },
});

/**
 * Returns the places in the header of an indexed dataset: version, number of sequences, number of documents,
 * and the first pointers.
 */
function placesInIndex(bytes) {
  const numSequences = Number(bytes.readBigUInt64LE(18));
  const pointers = 34 + 4 * numSequences;
  return [
    wide(bytes, 9, 'version'),
    wide(bytes, 18, 'sequences'),
    wide(bytes, 26, 'documents'),
    wide(bytes, pointers + 8, 'second pointer'),
    wide(bytes, pointers + 8 * numSequences + 8, 'second document'),
  ];
}

/**
 * Returns the places of counts in a GGUF file: the numbers of tensors and values in the header, the length of
 * the first key, the sizes of the architecture, the lengths of the lists of tokens and merges, and the first
 * size and offset of a tensor.
 */
function placesInGguf(bytes) {
  const after = (word, distance, where = word) => {
    const at = bytes.indexOf(word);
    return at < 0 ? [] : [wide(bytes, at + word.length + distance, where)];
  };
  const sizes = ['context_length', 'embedding_length', 'block_count', 'feed_forward_length', 'expert_count'];
  return [
    wide(bytes, 8, 'tensors'),
    wide(bytes, 16, 'values'),
    wide(bytes, 24, 'length of the first key'),
    // these values have 32 bits; the upper half of a 64-bit value would overwrite the length of the next key
    ...sizes.flatMap((name) => {
      const at = bytes.indexOf(name);
      return at < 0 ? [] : [narrow(bytes, at + name.length + 4, name)];
    }),
    ...after('tokenizer.ggml.tokens', 8),
    ...after('tokenizer.ggml.merges', 8),
    ...after('token_embd.weight', 4, 'columns of token_embd.weight'),
    ...after('token_embd.weight', 24, 'offset of token_embd.weight'),
  ];
}

/**
 * Returns a place at which a file has a 32-bit integer. A value that does not fit is replaced by the largest
 * value.
 */
const narrow = (bytes, at, where) => ({
  where,
  replaced: (count) => {
    const copy = Buffer.from(bytes);
    copy.writeUInt32LE(Math.min(count, 2 ** 32 - 1), at);
    return copy;
  },
});

function placesInText(text) {
  return [...text.matchAll(/\d+/g)].map(({ 0: digits, index }) => ({
    where: `number at ${index}`,
    replaced: (count) => Buffer.from(text.slice(0, index) + count + text.slice(index + digits.length)),
  }));
}

/** The number of bytes in the argument of each pickle opcode whose argument has a fixed size. */
const fixedArguments = { 128: 1, 149: 8, 75: 1, 77: 2, 74: 4, 71: 8, 104: 1, 106: 4, 113: 1, 114: 4 };
/** For each opcode whose argument begins with its length, the number of bytes that store this length. */
const lengths = { 138: 1, 139: 4, 88: 4, 140: 1, 141: 8, 85: 1, 84: 4, 66: 4, 67: 1, 142: 8 };
const integerOpcodes = new Set([0x4b, 0x4d, 0x4a]);

function placesInPickle(bytes, wrap) {
  const integers = [];
  const frames = [];
  for (let at = 0; at < bytes.length; ) {
    const opcode = bytes[at];
    const start = at++;
    if (opcode === 0x63) for (let line = 0; line < 2; line++) at = bytes.indexOf(0x0a, at) + 1;
    else if (opcode in lengths)
      at += lengths[opcode] + Number(bytes.readUIntLE(at, Math.min(6, lengths[opcode])));
    else at += fixedArguments[opcode] ?? 0;
    if (integerOpcodes.has(opcode)) integers.push([start, at]);
    if (opcode === 0x95) frames.push([start, at]);
  }
  return integers.map(([start, end]) => ({
    where: `integer at ${start}`,
    replaced: (count) => {
      const long = Buffer.alloc(10, 0);
      long.set([0x8a, 8]);
      long.writeBigInt64LE(BigInt(count), 2);
      // frames are left out, which the format allows, because their lengths would be wrong in the cut pickle
      const cuts = [...frames.map((frame) => [...frame, Buffer.alloc(0)]), [start, end, long]];
      return wrap(spliced(bytes, cuts));
    },
  }));
}

function spliced(bytes, cuts) {
  const parts = [];
  let from = 0;
  for (const [start, end, instead] of cuts.toSorted((one, other) => one[0] - other[0])) {
    parts.push(bytes.subarray(from, start), instead);
    from = end;
  }
  return Buffer.concat([...parts, bytes.subarray(from)]);
}

/** Returns the places in the pickle of a PyTorch file, which is a zip archive with uncompressed entries. */
function placesInZip(bytes) {
  const end = bytes.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'));
  const entries = [];
  for (let at = bytes.readUInt32LE(end + 16), left = bytes.readUInt16LE(end + 10); left > 0; left--) {
    const [size, nameLength] = [bytes.readUInt32LE(at + 24), bytes.readUInt16LE(at + 28)];
    const local = bytes.readUInt32LE(at + 42);
    const start = local + 30 + bytes.readUInt16LE(local + 26) + bytes.readUInt16LE(local + 28);
    const name = bytes.toString('utf8', at + 46, at + 46 + nameLength);
    entries.push({ name, content: bytes.subarray(start, start + size) });
    at += 46 + nameLength + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32);
  }
  const pickle = entries.find(({ name }) => name.endsWith('/data.pkl'));
  const archive = (content) =>
    makeZip(entries.map((entry) => (entry === pickle ? { ...entry, content } : entry)));
  return pickle === undefined ? [] : placesInPickle(pickle.content, archive);
}

/** Makes a zip archive with uncompressed entries, each at a multiple of 64 bytes, as PyTorch does. */
function makeZip(entries) {
  const files = [];
  const directory = [];
  let offset = 0;
  for (const { name, content } of entries) {
    const sizes = Buffer.alloc(12);
    sizes.writeUInt32LE(crc32(content));
    sizes.writeUInt32LE(content.length, 4);
    sizes.writeUInt32LE(content.length, 8);
    const padding = (64 - ((offset + 34 + Buffer.byteLength(name)) % 64)) % 64;
    const extra = Buffer.alloc(4 + padding);
    extra.write('FB', 'latin1');
    extra.writeUInt16LE(padding, 2);
    const lengthBytes = Buffer.alloc(4);
    lengthBytes.writeUInt16LE(Buffer.byteLength(name));
    lengthBytes.writeUInt16LE(extra.length, 2);
    const local = Buffer.concat([Buffer.from('PK\x03\x04', 'latin1'), Buffer.alloc(10), sizes, lengthBytes]);
    const central = Buffer.alloc(14);
    central.writeUInt32LE(offset, 10);
    lengthBytes.writeUInt16LE(0, 2);
    directory.push(
      Buffer.concat([
        Buffer.from('PK\x01\x02', 'latin1'),
        Buffer.alloc(12),
        sizes,
        lengthBytes,
        central,
        Buffer.from(name),
      ]),
    );
    const file = Buffer.concat([local, Buffer.from(name), extra, content]);
    // the file's own header has an extra field, but its header in the archive's directory has none
    file.writeUInt16LE(extra.length, 28);
    files.push(file);
    offset += file.length;
  }
  const listed = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 'latin1');
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(listed.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...files, listed, end]);
}
