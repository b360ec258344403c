import { existsSync } from 'node:fs';
import { cp, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type Dtype,
  dtypeBytes,
  SafetensorsDirectory,
  SafetensorsFile,
  type TensorSource,
  writeSafetensorsDirectory,
  writeSafetensorsFile,
} from '../index.js';
import { slicesFromStored } from '../tensors/stored-slices.js';
import { SafetensorsWriter } from './safetensors-writer.js';

const fixtures = fileURLToPath(new URL('../../fixtures', import.meta.url));

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'mtl-safetensors-'));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

/**
 * The tensors that tooling/fixtures/checkpoint-safetensors.py writes. Their values follow the same rule as
 * there.
 */
const declared: readonly (readonly [string, Dtype, readonly number[]])[] = [
  ['f64', 'F64', [2, 3]],
  ['f32', 'F32', [3, 4, 5]],
  ['f16', 'F16', [7]],
  ['bf16', 'BF16', [5, 3]],
  ['i64', 'I64', [4]],
  ['i32', 'I32', [2, 2]],
  ['i16', 'I16', [3]],
  ['i8', 'I8', [5]],
  ['u8', 'U8', [3, 3]],
  ['bool', 'BOOL', [6]],
  ['scalar', 'F32', []],
  ['empty', 'F32', [0, 4]],
  ['name with "quotes" and é', 'F32', [2]],
];

/** Returns the bits of the IEEE half that equals `value`, an integer between -30 and 60. */
function halfBits(value: number): number {
  if (value === 0) return 0;
  const magnitude = Math.abs(value);
  const exponent = Math.floor(Math.log2(magnitude));
  const mantissa = Math.round((magnitude / 2 ** exponent - 1) * 1024);
  return (value < 0 ? 0x8000 : 0) | ((exponent + 15) << 10) | mantissa;
}

function element(dtype: Dtype, value: number): Uint8Array {
  const bytes = Buffer.alloc(dtypeBytes[dtype]);
  if (dtype === 'F64') bytes.writeDoubleLE(value);
  else if (dtype === 'F32') bytes.writeFloatLE(value);
  else if (dtype === 'F16') bytes.writeUInt16LE(halfBits(value));
  else if (dtype === 'BF16') {
    const wide = Buffer.alloc(4);
    wide.writeFloatLE(value);
    wide.copy(bytes, 0, 2);
  } else if (dtype === 'I64') bytes.writeBigInt64LE(BigInt(value));
  else if (dtype === 'U8') bytes.writeUInt8(value);
  else if (dtype === 'BOOL') bytes.writeUInt8(value % 2);
  else bytes.writeIntLE(value, 0, bytes.length);
  return bytes;
}

function expectedBytes(number: number): Uint8Array {
  const [, dtype, shape] = declared[number]!;
  const count = shape.reduce((product, size) => product * size, 1);
  const offset = dtype === 'U8' || dtype === 'BOOL' ? 0 : 30;
  const values = Array.from({ length: count }, (_, index) => ((7 * index + 3 * number) % 61) - offset);
  return Buffer.concat(values.map((value) => element(dtype, value)));
}

const sources: TensorSource[] = declared.map(([name, dtype, shape], number) => ({
  name,
  dtype,
  shape,
  read: () => expectedBytes(number),
}));

async function expectAll(read: (name: string) => Promise<Uint8Array>): Promise<void> {
  for (const [number, [name]] of declared.entries()) {
    expect(Buffer.from(await read(name)).toString('hex'), name).toBe(
      Buffer.from(expectedBytes(number)).toString('hex'),
    );
  }
}

describe('against Python', () => {
  it('reads what Python wrote', async () => {
    await using file = await SafetensorsFile.open(join(fixtures, 'python.safetensors'));
    expect(file.metadata).toEqual({ format: 'pt', note: 'written by Python' });
    expect(file.tensors.size).toBe(declared.length);
    for (const [name, dtype, shape] of declared) expect(file.entry(name)).toMatchObject({ dtype, shape });
    await expectAll((name) => file.read({ name }));
  });

  it('reads a sharded directory in the layout of Hugging Face', async () => {
    await using sharded = await SafetensorsDirectory.open(join(fixtures, 'python-sharded'));
    expect(sharded.tensors.size).toBe(declared.length);
    expect(sharded.unlisted).toEqual([]);
    await expectAll((name) => sharded.read({ name }));
  });

  it('writes byte for byte the file that Python has read back', async () => {
    const path = join(directory, 'typescript.safetensors');
    const metadata = { format: 'pt', note: 'written by TypeScript' };
    await writeSafetensorsFile({ path, tensors: sources, metadata });
    const fixture = join(fixtures, 'typescript.safetensors');
    if (process.env.UPDATE_FIXTURES !== undefined) await cp(path, fixture);
    expect(Buffer.compare(await readFile(path), await readFile(fixture))).toBe(0);
    const headerBytes = (await readFile(path)).readBigUInt64LE();
    expect(headerBytes % 8n).toBe(0n);
  });
});

describe('SafetensorsFile', () => {
  it('reads any box of a tensor, into memory of the caller', async () => {
    await using file = await SafetensorsFile.open(join(fixtures, 'python.safetensors'));
    const whole = expectedBytes(1);
    const range = (size: number) =>
      fc.tuple(fc.nat(size), fc.nat(size)).map(([a, b]) => [Math.min(a, b), Math.max(a, b)] as const);
    await fc.assert(
      fc.asyncProperty(range(3), range(4), range(5), async (a, b, c) => {
        const wanted: Uint8Array[] = [];
        for (let i = a[0]; i < a[1]; i++) {
          for (let j = b[0]; j < b[1]; j++) {
            const row = (i * 4 + j) * 5 * 4;
            wanted.push(whole.subarray(row + c[0] * 4, row + c[1] * 4));
          }
        }
        const target = new Uint8Array(wanted.reduce((sum, { length }) => sum + length, 0)).fill(255);
        const result = await file.read({ name: 'f32', slices: slicesFromStored([a, b, c]), target });
        expect(result).toBe(target);
        expect(Buffer.compare(target, Buffer.concat(wanted))).toBe(0);
      }),
    );
    expect(await file.readRows({ name: 'f32', start: 1, end: 3 })).toEqual(
      new Uint8Array(whole.subarray(80)),
    );
  });

  it('reads boxes that span several blocks, and parts of blocks', async () => {
    // 3000 rows of 1000 F32 are 12 MB: four blocks of 4 MiB with boundaries inside rows
    const path = join(directory, 'large.safetensors');
    const values = Float32Array.from({ length: 3_000_000 }, (_, index) => index);
    const bytes = new Uint8Array(values.buffer);
    const shape = [3000, 1000];
    await writeSafetensorsFile({ path, tensors: [{ name: 'w', dtype: 'F32', shape, read: () => bytes }] });
    await using file = await SafetensorsFile.open(path);
    expect(Buffer.compare(await file.read({ name: 'w' }), bytes)).toBe(0);
    const box = await file.read({
      name: 'w',
      slices: [
        { start: 1000, end: 2500 },
        { start: 40, end: 43 },
      ],
    });
    const wanted = Float32Array.from(
      { length: 4500 },
      (_, index) => (1000 + Math.floor(index / 3)) * 1000 + 40 + (index % 3),
    );
    expect(Buffer.compare(box, new Uint8Array(wanted.buffer))).toBe(0);
  });

  it('names the nearest tensor, and refuses slices and targets that do not fit', async () => {
    await using file = await SafetensorsFile.open(join(fixtures, 'python.safetensors'));
    await expect(file.read({ name: 'scalr' })).rejects.toMatchObject({
      code: 'MTL_SAFETENSORS_NAME',
      expected: '"scalar"',
    });
    await expect(file.read({ name: 'f16', slices: [{ start: 3, end: 8 }] })).rejects.toMatchObject({
      code: 'MTL_SAFETENSORS_SLICE',
    });
    await expect(file.read({ name: 'f16', slices: [] })).rejects.toMatchObject({
      code: 'MTL_SAFETENSORS_SLICE',
    });
    await expect(file.read({ name: 'f16', target: new Uint8Array(13) })).rejects.toMatchObject({
      code: 'MTL_SAFETENSORS_TARGET',
      expected: '14',
    });
  });

  it('notices a file that is cut off after it was opened', async () => {
    const path = join(directory, 'cut.safetensors');
    await cp(join(fixtures, 'python.safetensors'), path);
    await using file = await SafetensorsFile.open(path);
    await truncate(path, file.bytes - 20);
    const last = [...file.tensors.keys()].at(-1)!;
    await expect(file.read({ name: last })).rejects.toMatchObject({ code: 'MTL_CHECKPOINT_CORRUPT' });
  });

  it.each([
    ['missing', undefined, 'MTL_CHECKPOINT_IO'],
    ['empty', Buffer.alloc(0), 'MTL_SAFETENSORS_INVALID'],
    [
      'header longer than the file',
      Buffer.from([200, 0, 0, 0, 0, 0, 0, 0, 123, 125]),
      'MTL_SAFETENSORS_INVALID',
    ],
    ['header of 2^63 bytes', Buffer.from([0, 0, 0, 0, 0, 0, 0, 128, 123, 125]), 'MTL_SAFETENSORS_INVALID'],
    ['header that is a list', withHeader('[]'), 'MTL_SAFETENSORS_INVALID'],
    [
      'gap',
      withHeader('{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', 2),
      'MTL_SAFETENSORS_INVALID',
    ],
    [
      'overlap',
      withHeader(
        '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}',
        3,
      ),
      'MTL_SAFETENSORS_INVALID',
    ],
    [
      'gap as large as an overlap',
      withHeader(
        '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},' +
          '"c":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}}',
        5,
      ),
      'MTL_SAFETENSORS_INVALID',
    ],
    [
      'name twice',
      withHeader(
        '{"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
        2,
      ),
      'MTL_SAFETENSORS_INVALID',
    ],
    ['bytes at the end', withHeader('{}', 1), 'MTL_SAFETENSORS_INVALID'],
    [
      'shape and bytes',
      withHeader('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,2]}}', 2),
      'MTL_SAFETENSORS_INVALID',
    ],
    [
      'unknown dtype',
      withHeader('{"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}}', 4),
      'MTL_SAFETENSORS_INVALID',
    ],
    [
      'fraction',
      withHeader('{"a":{"dtype":"U8","shape":[0.5],"data_offsets":[0,0]}}'),
      'MTL_SAFETENSORS_INVALID',
    ],
    ['metadata of numbers', withHeader('{"__metadata__":{"a":1}}'), 'MTL_SAFETENSORS_INVALID'],
    ['invalid UTF-8', withHeader(Buffer.from([0x7b, 0xff, 0x7d])), 'MTL_SAFETENSORS_INVALID'],
  ])('refuses a file: %s', async (_, content, code) => {
    const path = join(directory, 'bad.safetensors');
    if (content !== undefined) await writeFile(path, content);
    await expect(SafetensorsFile.open(path)).rejects.toMatchObject({ code });
  });

  it('keeps names that JavaScript objects treat specially', async () => {
    const path = join(directory, 'names.safetensors');
    const names = ['__proto__', 'constructor', '1', '0', ''];
    const tensors = names.map((name, index) => ({
      name,
      dtype: 'U8' as const,
      shape: [1],
      read: () => Uint8Array.of(index),
    }));
    await writeSafetensorsFile({
      path,
      tensors,
      metadata: JSON.parse('{"__proto__":"x"}') as Record<string, string>,
    });
    await using file = await SafetensorsFile.open(path);
    expect([...file.tensors.keys()]).toEqual(names);
    expect(Object.keys(file.metadata)).toEqual(['__proto__']);
    for (const [index, name] of names.entries())
      expect(await file.read({ name })).toEqual(Uint8Array.of(index));
  });
});

function withHeader(header: string | Buffer, dataBytes = 0): Buffer {
  const json = Buffer.from(header);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json, Buffer.alloc(dataBytes)]);
}

describe('SafetensorsWriter', () => {
  const tensors = [
    { name: 'a', dtype: 'U8', shape: [4] },
    { name: 'none', dtype: 'U8', shape: [0] },
    { name: 'b', dtype: 'U8', shape: [2] },
  ] as const;

  it('takes the bytes of a tensor in parts of any size', async () => {
    const path = join(directory, 'parts.safetensors');
    const writer = await SafetensorsWriter.create({ path, tensors });
    await writer.write('a', Uint8Array.of(1));
    await writer.write('a', Uint8Array.of());
    await writer.write('a', Uint8Array.of(2, 3, 4));
    await writer.write('b', Uint8Array.of(5, 6));
    const written = await writer.finish();
    expect(written.bytes).toBe((await readFile(path)).length);
    await using file = await SafetensorsFile.open(path);
    expect(await file.read({ name: 'a' })).toEqual(Uint8Array.of(1, 2, 3, 4));
    expect(await file.read({ name: 'b' })).toEqual(Uint8Array.of(5, 6));
  });

  it('refuses another order, too many bytes and an early end', async () => {
    const path = join(directory, 'order.safetensors');
    const writer = await SafetensorsWriter.create({ path, tensors });
    await expect(writer.write('b', Uint8Array.of(1))).rejects.toMatchObject({
      code: 'MTL_SAFETENSORS_ORDER',
    });
    await expect(writer.write('a', new Uint8Array(5))).rejects.toMatchObject({
      code: 'MTL_SAFETENSORS_ORDER',
    });
    await writer.write('a', new Uint8Array(4));
    await expect(writer.finish()).rejects.toMatchObject({
      code: 'MTL_SAFETENSORS_ORDER',
      expected: '2 more bytes of "b"',
    });
    await writer.abort();
    expect(existsSync(path)).toBe(false);
  });

  it.each([
    [[{ name: '__metadata__', dtype: 'U8', shape: [1] }]],
    [
      [
        { name: 'a', dtype: 'U8', shape: [1] },
        { name: 'a', dtype: 'U8', shape: [1] },
      ],
    ],
    [[{ name: 'a', dtype: 'U8', shape: [-1] }]],
    [[{ name: 'a', dtype: 'F33' as 'F32', shape: [1] }]],
    [[{ name: '\ud800', dtype: 'U8', shape: [1] }]],
    [[{ name: 'a', dtype: 'U8', shape: [2 ** 40, 2 ** 40] }]],
  ] as const)('refuses a declaration that no file can hold (%#)', async (bad) => {
    const path = join(directory, 'declared.safetensors');
    await expect(SafetensorsWriter.create({ path, tensors: bad })).rejects.toMatchObject({
      code: 'MTL_SAFETENSORS_DECLARATION',
    });
    expect(existsSync(path)).toBe(false);
  });
});

describe('sharded directories', () => {
  it('writes shards of bounded size with an index, and reads them back', async () => {
    const { files, totalBytes } = await writeSafetensorsDirectory({
      directory,
      tensors: sources,
      maxShardBytes: 100,
    });
    expect(files.length).toBeGreaterThan(2);
    expect(files[0]).toBe(`model-00001-of-${String(files.length).padStart(5, '0')}.safetensors`);
    const index = JSON.parse(await readFile(join(directory, 'model.safetensors.index.json'), 'utf8'));
    const all = declared.reduce((sum, _, number) => sum + expectedBytes(number).length, 0);
    expect(totalBytes).toBe(all);
    expect(index.metadata.total_size).toBe(all);
    await using sharded = await SafetensorsDirectory.open(directory);
    await expectAll((name) => sharded.read({ name }));
    // wide dtypes come first, so that all tensors can be mapped in place
    for (const entry of sharded.tensors.values()) expect(entry.offset % dtypeBytes[entry.dtype]).toBe(0);
  });

  it('writes one file without an index when it fits', async () => {
    const { files } = await writeSafetensorsDirectory({ directory, tensors: sources });
    expect(files).toEqual(['model.safetensors']);
    await using single = await SafetensorsDirectory.open(directory);
    await expectAll((name) => single.read({ name }));
  });

  it.each([
    ['{"weight_map":', 'MTL_SAFETENSORS_INDEX'],
    ['{}', 'MTL_SAFETENSORS_INDEX'],
    ['{"weight_map":{"a":"../secret.safetensors"}}', 'MTL_SAFETENSORS_INDEX'],
    ['{"weight_map":{"a":7}}', 'MTL_SAFETENSORS_INDEX'],
    ['{"weight_map":{"not there":"model.safetensors"}}', 'MTL_SAFETENSORS_INDEX'],
    ['{"weight_map":{"f32":"absent.safetensors"}}', 'MTL_SAFETENSORS_INDEX'],
  ])('refuses the index %s', async (text, code) => {
    await writeSafetensorsDirectory({ directory, tensors: sources });
    await writeFile(join(directory, 'model.safetensors.index.json'), text);
    await expect(SafetensorsDirectory.open(directory, { prefersIndex: true })).rejects.toMatchObject({
      code,
    });
  });

  it('says what an unsuitable directory holds', async () => {
    await writeFile(join(directory, 'pytorch_model.bin'), '');
    await expect(SafetensorsDirectory.open(directory)).rejects.toMatchObject({
      code: 'MTL_SAFETENSORS_NONE',
      remedy: expect.stringContaining('pytorch_model.bin') as string,
    });
  });
});
