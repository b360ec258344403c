import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readGguf, writeGguf } from '../../src/gguf/index.js';
import { encodeHeader, int32s, type Metadata, text, uint32 } from '../../src/gguf/metadata.js';
import {
  configurations,
  parseModel,
  randomModel,
  type TinyModelName,
  tokenizerFiles,
} from './tiny-models.js';

const scratch = mkdtempSync(join(tmpdir(), 'mtl-gguf-'));
const path = join(scratch, 'model.gguf');
afterAll(() => rmSync(scratch, { recursive: true }));

async function readBytes(name: TinyModelName): Promise<Buffer> {
  using tiny = await randomModel(parseModel(configurations[name]));
  const whole = join(scratch, `${name}.gguf`);
  const { model, tensors } = tiny;
  await writeGguf({ path: whole, model, tensors, tokenizerFiles, endTokens: [266] });
  return readFileSync(whole);
}

let valid: Buffer;
let withExperts: Buffer;
beforeAll(async () => {
  valid = await readBytes('llama');
  withExperts = await readBytes('mixtral');
});

async function read(bytes: Uint8Array): Promise<void> {
  writeFileSync(path, bytes);
  await (await readGguf(path)).close();
}

const changed = (change: (bytes: Buffer) => void): Buffer => {
  const bytes = Buffer.from(valid);
  change(bytes);
  return bytes;
};

/** Changes a number of 4 bytes behind the first place where the file has a text. */
const numberAfter = (word: string, value: number, distance = 0) =>
  changed((bytes) => bytes.writeUInt32LE(value, bytes.indexOf(word) + word.length + distance));

const huge = 0xffff_ffff;

function manyExperts(): Buffer {
  const bytes = Buffer.from(withExperts);
  bytes.writeUInt32LE(huge, bytes.indexOf('expert_count') + 'expert_count'.length + 4);
  return bytes;
}

it('reads the file that the damage is done to', async () => {
  await expect(read(valid)).resolves.toBeUndefined();
});

describe('a damaged file', () => {
  it.each<readonly [string, () => Uint8Array, string, string]>([
    ['empty', () => Buffer.alloc(0), 'INVALID', 'its header ends beyond the file'],
    ['of another format', () => changed((bytes) => bytes.write('GGML')), 'INVALID', 'begin with GGUF'],
    [
      'of a later version',
      () => changed((bytes) => bytes.writeUInt32LE(4, 4)),
      'INVALID',
      'its version is 4',
    ],
    [
      'of another byte order',
      () => changed((bytes) => bytes.writeUInt32BE(3, 4)),
      'INVALID',
      'version is 50331648',
    ],
    [
      'with a count of tensors',
      () => changed((bytes) => bytes.writeUInt32LE(huge, 12)),
      'INVALID',
      'tensors in',
    ],
    [
      'with a count of values',
      () => changed((bytes) => bytes.writeUInt32LE(huge, 20)),
      'INVALID',
      'metadata in',
    ],
    [
      'with a long key',
      () => changed((bytes) => bytes.writeUInt32LE(huge, 28)),
      'INVALID',
      'bytes of a text',
    ],
    ['with an unknown type', () => numberAfter('general.type', 13), 'INVALID', 'the unknown type 13'],
    ['with a long list', () => numberAfter('ggml.tokens', huge, 8), 'INVALID', 'values of a list'],
    ['with another type of a list', () => numberAfter('ggml.token_type', 6, 4), 'INVALID', 'whole numbers'],
    [
      'with two values of one key',
      () => changed((bytes) => bytes.write('general.file_type', bytes.indexOf('llama.block_count'))),
      'INVALID',
      'two values "general.file_type"',
    ],
    ['cut off in its header', () => valid.subarray(0, 300), 'INVALID', 'in 300 bytes'],
    ['cut off in its tensors', () => valid.subarray(0, valid.length - 5000), 'INVALID', 'cannot be at byte'],
    ['with other sizes', () => numberAfter('llama.embedding_length', 68, 4), 'WEIGHTS', ''],
    ['with other layers', () => numberAfter('llama.block_count', huge, 4), 'WEIGHTS', 'layers'],
    ['with more heads', () => numberAfter('llama.attention.head_count', huge, 4), 'INVALID', ''],
    ['with more experts', manyExperts, 'WEIGHTS', 'declare 4294967295 experts'],
    [
      'with a longer dimension',
      () => numberAfter('token_embd.weight', huge, 4),
      'INVALID',
      'token_embd.weight',
    ],
    ['with many dimensions', () => numberAfter('token_embd.weight', 5), 'INVALID', '5 dimensions'],
    [
      'with a type in blocks',
      () => numberAfter('token_embd.weight', 14, 20),
      'DTYPE',
      'Q6_K, which is not read',
    ],
    ['with an unknown type of tensors', () => numberAfter('token_embd.weight', 99, 20), 'DTYPE', 'number 99'],
    ['with an offset between', () => numberAfter('token_embd.weight', 1, 24), 'INVALID', 'at byte 1'],
  ])('%s is refused', async (_, damage, code, problem) => {
    await expect(read(damage())).rejects.toMatchObject({
      code: `MTL_GGUF_${code}`,
      message: expect.stringContaining(problem),
    });
  });

  it('with weights that are not finite is refused when they are read', async () => {
    writeFileSync(
      path,
      changed((bytes) => bytes.fill(0xff, bytes.length - 64)),
    );
    const found = await readGguf(path);
    using tiny = await randomModel(found.configuration);
    await expect(found.load(tiny.tensors)).rejects.toMatchObject({ code: 'MTL_NOT_FINITE' });
    await found.close();
  });

  it('that is missing, or a folder, is refused', async () => {
    for (const place of [join(scratch, 'none.gguf'), scratch]) {
      await expect(readGguf(place)).rejects.toMatchObject({ code: 'MTL_GGUF_IO' });
    }
  });
});

describe('a file of a model that nothing here computes', () => {
  const only = (metadata: Metadata): Buffer =>
    encodeHeader({ 'general.type': text('model'), ...metadata }, []);

  it('is refused with what it needs', async () => {
    await expect(read(only({ 'general.architecture': text('gemma3') }))).rejects.toMatchObject({
      code: 'MTL_GGUF_ARCHITECTURE',
      message: expect.stringContaining('its architecture is gemma3'),
    });
    const before = Buffer.from('llama.vocab_size');
    // a key of the same length that changes what is computed
    const window = changed((bytes) => bytes.write('llama.sliding_wi', bytes.indexOf(before)));
    await expect(read(window)).rejects.toMatchObject({
      code: 'MTL_GGUF_ARCHITECTURE',
      message: expect.stringContaining('nothing here computes with llama.sliding_wi'),
    });
  });

  it('is refused if it has no architecture, or one of another type', async () => {
    for (const metadata of [
      {},
      { 'general.architecture': uint32(1) },
      { 'general.architecture': int32s([1]) },
    ]) {
      await expect(read(only(metadata))).rejects.toMatchObject({ code: 'MTL_GGUF_INVALID' });
    }
  });
});
