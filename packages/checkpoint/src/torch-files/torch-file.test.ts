import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { open, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { encodeTorchObject, encodeTorchTensor, planZip } from './encode-torch-file.js';
import { PickledGlobal, PickledObject } from './read-pickle.js';
import { TorchFile } from './torch-file.js';
import { TorchTensor } from './torch-tensor.js';
import { PersistentIdentifier, PickledTuple, type PickleValue, writePickle } from './write-pickle.js';

const directory = mkdtempSync(join(tmpdir(), 'torch-files-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const path = join(directory, 'file.pt');

async function opened(parts: readonly Uint8Array[]): Promise<TorchFile> {
  writeFileSync(path, Buffer.concat(parts));
  return await TorchFile.open(path);
}

/** Returns a file with the given bytes as its pickle. */
function withPickle(pickle: Buffer): readonly Uint8Array[] {
  const plan = planZip([{ name: 'a/data.pkl', bytes: pickle.length, checksum: 0 }]);
  return [plan.headers[0]!, pickle, plan.directory];
}

const refusal = (parts: readonly Uint8Array[]) => expect(opened(parts).then((file) => file.close())).rejects;

describe('a pickle', () => {
  const plain = fc.letrec<{ value: PickleValue }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      fc.constant(null),
      fc.boolean(),
      fc.maxSafeInteger(),
      fc.double({ noNaN: true }).map((value) => (Object.is(value, -0) ? 0 : value)),
      fc.string({ unit: 'grapheme' }),
      fc.array(tie('value'), { maxLength: 4 }),
      fc.dictionary(fc.string(), tie('value'), { maxKeys: 4 }).map((items) => new Map(Object.entries(items))),
    ),
  })).value;

  it('comes back as it was written', async () => {
    await fc.assert(
      fc.asyncProperty(plain, async (value) => {
        const file = await opened(encodeTorchObject(value));
        await file.close();
        expect(file.content).toEqual(value);
      }),
      { numRuns: 60 },
    );
  });

  it('calls nothing: what it would call is data', async () => {
    const call = new PickledObject('os.system', ['touch /tmp/called']);
    const file = await opened(encodeTorchObject([call, new PickledGlobal('builtins', 'eval')]));
    await file.close();
    expect(file.content).toEqual([call, new PickledGlobal('builtins', 'eval')]);
  });

  it('may contain itself, and much of it, in memory of its size', async () => {
    // [x, x], nested thirty times
    const levels = Array.from({ length: 30 }, (_, level) => [
      ...[0x5d, 0x71, level + 1, 0x28, 0x68, level, 0x68, level, 0x65, 0x30],
    ]).flat();
    const bytes = Buffer.from([0x80, 2, 0x5d, 0x71, 0, 0x30, ...levels, 0x68, 30, 0x2e]);
    const file = await opened(withPickle(bytes));
    await file.close();
    expect(file.content).toHaveLength(2);
  });

  it.each([
    ['ends too early', [0x80, 2, 0x58, 255, 255, 255, 255], 'ends too early'],
    ['takes what is not there', [0x80, 2, 0x85, 0x2e], 'takes what is not there'],
    ['refers to what is not there', [0x80, 2, 0x68, 7, 0x2e], 'refers to value 7'],
    ['appends to a number', [0x80, 2, 0x4b, 1, 0x4b, 1, 0x61, 0x2e], 'appends to what is no list'],
    ['has an unknown operation', [0x80, 2, 0x69, 0x2e], 'operation 0x69'],
    ['has text operations of protocol 0', [0x49, 0x31, 0x0a, 0x2e], 'operation 0x49'],
    ['has a later protocol', [0x80, 9, 0x4e, 0x2e], 'protocol 9'],
    ['ends a list that was not begun', [0x80, 2, 0x74, 0x2e], 'was not begun'],
    ['has a storage that is none', [0x80, 2, 0x4e, 0x51, 0x2e], 'refers to what is no storage'],
  ])('that %s is refused', async (_, bytes, problem) => {
    await refusal(withPickle(Buffer.from(bytes))).toMatchObject({
      code: 'MTL_TORCH_FILE_INVALID',
      message: expect.stringContaining(problem) as string,
      exitCode: 2,
    });
  });
});

describe('a tensor', () => {
  const values = Float32Array.from({ length: 6 }, (_, index) => index);
  const bytes = new Uint8Array(values.buffer);
  const tensor = { dtype: 'F32', shape: [2, 3], bytes } as const;

  it('comes back bit for bit', async () => {
    const file = await opened(encodeTorchTensor(tensor));
    expect(file.content).toMatchObject({ dtype: 'F32', shape: [2, 3], strides: [3, 1] });
    expect(Buffer.from(await file.readTensor(file.content as TorchTensor)).equals(bytes)).toBe(true);
    await file.close();
  });

  it('is read through its strides', async () => {
    const file = await opened(encodeTorchTensor(tensor));
    const whole = file.content as TorchTensor;
    const transposed = new TorchTensor({ ...whole, shape: [3, 2], strides: [1, 3], offset: 0 });
    const read = await file.readTensor(transposed);
    expect([...new Float32Array(read.buffer)]).toEqual([0, 3, 1, 4, 2, 5]);
    await file.close();
  });

  it('with a damaged value is found by its checksum', async () => {
    const parts = encodeTorchTensor(tensor).map((part) => Buffer.from(part));
    const data = parts.find((part) => part.equals(bytes))!;
    data[3]! ^= 1;
    const file = await opened(parts);
    await expect(file.readTensor(file.content as TorchTensor)).rejects.toMatchObject({
      message: expect.stringContaining('archive/data/0 does not have its checksum') as string,
    });
    await file.close();
  });

  /** Returns the pickle of a tensor without a storage. */
  function declared(shape: readonly number[], strides: readonly number[], numElements: number): Buffer {
    const storage = ['storage', new PickledGlobal('torch', 'FloatStorage'), '0', 'cpu', numElements];
    const parameters = [
      ...[new PersistentIdentifier(new PickledTuple(storage)), 0],
      ...[new PickledTuple(shape), new PickledTuple(strides), false, null],
    ];
    return writePickle(new PickledObject('torch._utils._rebuild_tensor_v2', parameters));
  }

  it('that repeats its elements beyond the bytes of the file is refused', async () => {
    const file = await opened(withPickle(declared([1e9, 1e3], [0, 0], 1)));
    await expect(file.readTensor(file.content as TorchTensor)).rejects.toMatchObject({
      message: expect.stringContaining('larger than its storage of 1 elements') as string,
    });
    await file.close();
  });

  it('whose storage is missing is refused before memory is taken', async () => {
    const file = await opened(withPickle(declared([2 ** 40], [1], 2 ** 40)));
    await expect(file.checkTensor(file.content as TorchTensor)).rejects.toMatchObject({
      message: expect.stringContaining('a/data/0, which a tensor refers to, is missing') as string,
    });
    await file.close();
  });
});

describe('a file of before version 1.6', () => {
  const bytes = new Uint8Array(Float32Array.of(1, 2, 3, 4).buffer);
  const storage = ['storage', new PickledGlobal('torch', 'FloatStorage'), '0', 'cpu', 4, null];
  const tensor = new PickledObject('torch._utils._rebuild_tensor_v2', [
    ...[new PersistentIdentifier(new PickledTuple(storage)), 1],
    ...[new PickledTuple([3]), new PickledTuple([1]), false, null],
  ]);
  /** A string that is longer than the section of the file that is read first. */
  const text = 'x'.repeat(3 << 20);

  function sequential({ version = 1001, isLittleEndian = true, numElements = 4 } = {}): readonly Buffer[] {
    const count = Buffer.alloc(8);
    count.writeBigInt64LE(BigInt(numElements));
    const pickles = [version, new Map([['little_endian', isLittleEndian]]), [text, tensor], ['0']];
    const magic = Buffer.from('80028a0a6cfc9c46f9206aa850192e', 'hex');
    return [magic, ...pickles.map(writePickle), count, Buffer.from(bytes)];
  }

  it('is read, whatever the size of its pickles', async () => {
    const file = await opened(sequential());
    const [first, second] = file.content as [string, TorchTensor];
    expect(first.length).toBe(text.length);
    expect([...new Float32Array((await file.readTensor(second)).buffer)]).toEqual([2, 3, 4]);
    await file.close();
  });

  it.each([
    ['of another version', sequential({ version: 1002 }), 'version 1002 of its format'],
    ['of a big-endian machine', sequential({ isLittleEndian: false }), 'not little-endian'],
    ['with another number of elements', sequential({ numElements: 5 }), 'has 5 elements, and 4 are'],
    ['without its values', sequential().slice(0, -1), 'it was cut off'],
    ['without its list of storages', sequential().slice(0, -3), 'its pickle ends too early'],
  ])('%s is refused', async (_, parts, problem) => {
    await refusal(parts).toMatchObject({
      code: 'MTL_TORCH_FILE_INVALID',
      message: expect.stringContaining(problem) as string,
    });
  });
});

describe('a zip file', () => {
  it('of more than 4 GB is read by the fields of zip64', async () => {
    const numElements = 5 * 2 ** 30;
    const storage = ['storage', new PickledGlobal('torch', 'ByteStorage'), '0', 'cpu', numElements];
    const pickle = writePickle(
      new PickledObject('torch._utils._rebuild_tensor_v2', [
        ...[new PersistentIdentifier(new PickledTuple(storage)), numElements - 4],
        ...[new PickledTuple([4]), new PickledTuple([1]), false, null],
      ]),
    );
    const plan = planZip([
      { name: 'a/data/0', bytes: numElements, checksum: 0 },
      { name: 'a/data.pkl', bytes: pickle.length, checksum: 0 },
    ]);
    // the file is sparse, so it takes no disk space
    const large = join(directory, 'large.pt');
    const [first, second] = plan.headers as [Buffer, Buffer];
    const end = first.length + numElements;
    const handle = await open(large, 'w');
    await handle.write(first, 0, first.length, 0);
    await handle.write(Buffer.from([1, 2, 3, 4]), 0, 4, end - 4);
    await handle.write(Buffer.concat([second, pickle, plan.directory]), 0, undefined, end);
    await handle.close();
    const file = await TorchFile.open(large);
    expect([...(await file.readTensor(file.content as TorchTensor))]).toEqual([1, 2, 3, 4]);
    await file.close();
    await truncate(large, end);
    await expect(TorchFile.open(large)).rejects.toMatchObject({
      message: expect.stringContaining('the end of its zip file is missing') as string,
    });
  });

  it.each([
    ['that is none', Buffer.from('weights'), 'it is not a zip file'],
    ['that is empty', Buffer.alloc(0), 'it is not a zip file'],
  ])('%s is refused', async (_, bytes, problem) => {
    await refusal([bytes]).toMatchObject({ message: expect.stringContaining(problem) as string });
  });

  it('with compressed entries is refused', async () => {
    const packed = deflateRawSync(writePickle(null));
    const plan = planZip([{ name: 'a/data.pkl', bytes: packed.length, checksum: 0 }]);
    plan.directory.writeUInt16LE(8, 10);
    await refusal([plan.headers[0]!, packed, plan.directory]).toMatchObject({
      message: expect.stringContaining('a/data.pkl is compressed') as string,
    });
  });
});
