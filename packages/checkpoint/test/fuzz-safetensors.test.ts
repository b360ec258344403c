import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MtlError } from '@mtl/errors';
import { describe, expect, it } from 'vitest';
import { SafetensorsDirectory, SafetensorsFile } from '../src/index.js';
import { mutate } from './support/mutate.js';
import { Random } from './support/random.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const fixtures = fileURLToPath(new URL('../fixtures', import.meta.url));
const malformed = join(fixtures, 'malformed');
const temporary = temporaryDirectory();

/** Returns the number of bytes that `read` has read, or its coded error; throws any other error. */
async function catchOutcome(read: () => Promise<number>): Promise<number | MtlError> {
  try {
    return await read();
  } catch (error) {
    if (MtlError.isInstance(error)) return error;
    throw error;
  }
}

async function readFileWhole(path: string): Promise<number> {
  await using file = await SafetensorsFile.open(path);
  let bytes = 0;
  for (const name of file.tensors.keys()) bytes += (await file.read({ name })).length;
  return bytes;
}

/** Returns the kind of an error: its message without the parts that differ from case to case. */
function describeKind(error: MtlError): string {
  return error.message
    .replaceAll(temporary.path, '')
    .replace(/\(.*\)/s, '()')
    .replace(/"[^"]*"/g, '""')
    .replace(/-?\d+/g, '0');
}

describe('damaged safetensors', () => {
  it('are read or refused with one coded error, 800 files', async () => {
    const originals = [
      await readFile(join(fixtures, 'python.safetensors')),
      await readFile(join(fixtures, 'typescript.safetensors')),
    ];
    const random = new Random(20261121);
    const path = join(temporary.path, 'case.safetensors');
    const kinds = new Map<string, Uint8Array>();
    let readable = 0;
    for (let round = 0; round < 800; round++) {
      let bytes: Uint8Array = random.pick(originals);
      const times = 1 + random.below(2);
      for (let time = 0; time < times; time++) bytes = mutate(bytes, random);
      await writeFile(path, bytes);
      const outcome = await catchOutcome(() => readFileWhole(path));
      if (typeof outcome === 'number') readable++;
      else {
        expect(outcome.code, `round ${round}: ${outcome.message}`).toBe('MTL_SAFETENSORS_INVALID');
        const kind = describeKind(outcome);
        if ((kinds.get(kind)?.length ?? Number.POSITIVE_INFINITY) > bytes.length) kinds.set(kind, bytes);
      }
    }
    // Damage inside tensor data cannot be seen by this format; all of the checks must have been met.
    expect(readable).toBeGreaterThan(50);
    expect(kinds.size).toBeGreaterThan(10);
    if (process.env.UPDATE_FIXTURES !== undefined) await keep(kinds);
  });

  it('that were interesting once are still refused', async () => {
    const names = await readdir(malformed);
    expect(names.length).toBeGreaterThan(10);
    for (const name of names) {
      const outcome = await catchOutcome(() => readFileWhole(join(malformed, name)));
      expect(outcome, name).toMatchObject({ code: 'MTL_SAFETENSORS_INVALID' });
    }
  });

  it('indexes are read or refused with one coded error, 400 files', async () => {
    const source = join(fixtures, 'python-sharded');
    for (const name of await readdir(source)) {
      await writeFile(join(temporary.path, name), await readFile(join(source, name)));
    }
    const path = join(temporary.path, 'model.safetensors.index.json');
    const original = await readFile(path);
    const random = new Random(7);
    const codes = new Set<string>();
    for (let round = 0; round < 400; round++) {
      await writeFile(path, mutate(original, random));
      const outcome = await catchOutcome(async () => {
        await using sharded = await SafetensorsDirectory.open(temporary.path);
        let bytes = 0;
        for (const name of sharded.tensors.keys()) bytes += (await sharded.read({ name })).length;
        return bytes;
      });
      codes.add(typeof outcome === 'number' ? 'read' : outcome.code);
    }
    const allowed = ['read', 'MTL_SAFETENSORS_INDEX', 'MTL_CHECKPOINT_IO', 'MTL_SAFETENSORS_INVALID'];
    expect([...codes].filter((code) => !allowed.includes(code))).toEqual([]);
    expect(codes).toContain('read');
    expect(codes).toContain('MTL_SAFETENSORS_INDEX');
  });
});

/** Writes one small file per kind of error into the fixtures. */
async function keep(kinds: ReadonlyMap<string, Uint8Array>): Promise<void> {
  await mkdir(malformed, { recursive: true });
  const smallest = [...kinds.values()].filter(({ length }) => length < 4096).slice(0, 24);
  for (const [index, bytes] of smallest.entries()) {
    await writeFile(join(malformed, `case-${String(index).padStart(2, '0')}.safetensors`), bytes);
  }
}
