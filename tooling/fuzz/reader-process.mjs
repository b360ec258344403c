/**
 * A process that damages files and reads them, one case per message. Arguments: the module with the formats,
 * and the folder for this process. The parent process detects crashes, hangs and excessive memory.
 */
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Random } from './mutations.mjs';
import { importPackage } from './packages.mjs';

const [, , formatsFile, folder] = process.argv;
const { formats } = await import(pathToFileURL(formatsFile).href);
const { MtlError } = await importPackage('@mtl/errors');
const examples = new Map();

/**
 * Returns the valid example of a format: its files, the files to damage, and the result of reading the
 * example.
 */
async function makeExample(name) {
  const known = examples.get(name);
  if (known !== undefined) return known;
  const directory = join(folder, name);
  const { make, files, read, invariant } = formats[name];
  mkdirSync(directory, { recursive: true });
  await make(directory);
  const content = new Map();
  for (const entry of readdirSync(directory, { recursive: true })) {
    const path = join(directory, entry);
    if (statSync(path).isFile()) content.set(path, readFileSync(path));
  }
  const targets = files(directory);
  const results = new Map();
  for (const file of targets) results.set(file, invariant(await read(directory, file)));
  const example = { directory, content, targets, results };
  examples.set(name, example);
  return example;
}

/** Restores all files of the example, because a reader may also have changed files. */
function restore({ directory, content }) {
  for (const entry of readdirSync(directory, { recursive: true })) {
    const path = join(directory, entry);
    if (!content.has(path) && statSync(path).isFile()) rmSync(path);
  }
  for (const [path, bytes] of content) {
    if (!readFileSync(path).equals(bytes)) writeFileSync(path, bytes);
  }
}

async function runCase({ format, seed, index, input }) {
  const example = await makeExample(format);
  const { mutate, read, invariant } = formats[format];
  const random = new Random(`${seed} ${format} ${index}`);
  const file = input?.file ?? random.pick(example.targets);
  const path = join(example.directory, file);
  const bytes =
    input === undefined
      ? mutate(Buffer.from(example.content.get(path)), random, file)
      : readFileSync(input.path);
  writeFileSync(path, bytes);
  process.send({ kind: 'started', file, path });
  try {
    const result = invariant(await read(example.directory, file));
    const expected = example.results.get(file);
    if (result === expected) return { kind: 'read' };
    return { kind: 'different', what: `gives ${result}, the untouched file ${expected}` };
  } catch (error) {
    if (MtlError.isInstance(error)) return { kind: 'refused', code: error.code };
    return { kind: 'uncoded', what: error instanceof Error ? error.stack : String(error) };
  } finally {
    // the parent process keeps this file if the case fails
    writeFileSync(join(folder, 'input'), bytes);
    restore(example);
  }
}

process.on('message', async (message) => process.send({ ...(await runCase(message)), done: true }));
process.send({ kind: 'ready', formats: Object.keys(formats) });
