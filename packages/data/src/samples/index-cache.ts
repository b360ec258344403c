import { createHash } from 'node:crypto';
import { closeSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { openRegularFile, readFully, readRegularFile, writeFileAtomically } from '@mtl/errors/files';
import {
  float64ToInt64Bits,
  int64BitsToFloat64,
  sharedFloat64Array,
  sharedInt16Array,
  sharedInt32Array,
  sharedUint32Array,
} from '../files/typed-arrays.js';
import type { IndexCacheEvent, SampleIndexSettings } from './dataset-part.js';

/** The element type and shape of an array in a cached index. */
interface CachedArraySpecification<D extends NpyDescription = NpyDescription> {
  readonly descr: D;
  /** The array's shape. The first size is undefined if it is known only after building. */
  readonly shape: readonly [number | undefined, ...number[]];
}

/**
 * Returns the folder of a dataset's cached indices: `cacheDirectory`, or by default Megatron's folder;
 * undefined if the cache is disabled.
 */
export function indexCacheDirectory(
  { prefix, cacheDirectory }: { readonly prefix: string } & Pick<SampleIndexSettings, 'cacheDirectory'>,
  className: string,
): string | undefined {
  // Megatron's folder has the same name as the prefix, and is next to the .bin and .idx files
  return cacheDirectory === false
    ? undefined
    : (cacheDirectory ?? join(prefix, 'cache', `${className}_indices`));
}

type Arrays<S> = { [K in keyof S]: S[K] extends CachedArraySpecification<infer D> ? NpyArrays[D] : never };

/** How an index is found in the cache, checked and built. */
interface IndexCacheOptions<S extends Record<string, CachedArraySpecification>> {
  /** The cache folder; undefined disables the cache. */
  readonly directory: string | undefined;
  /** Megatron's class name, for example `GPTDataset`. */
  readonly className: string;
  /** The split, which is part of the file names; undefined if the file names contain no split. */
  readonly split?: string | undefined;
  /** The string whose md5 is part of the file names. */
  readonly description: string;
  /** The name (as in `{name}.npy`), element type and shape of each array. */
  readonly arrays: S;
  readonly build: () => Arrays<S>;
  /** Returns a description of the defect in the loaded arrays, or undefined if they are valid. */
  readonly check: (arrays: Arrays<S>) => string | undefined;
  readonly onEvent?: ((event: IndexCacheEvent) => void) | undefined;
}

/**
 * Loads an index from Megatron's cache files, or builds and stores it. Files are written atomically, and
 * arrays are checked after loading. An invalid cache is rebuilt, and the event contains the reason.
 *
 * The description, and thus the md5 in the file names, includes the tokenizer, although an index does not
 * depend on it. An index whose description differs only in the tokenizer is therefore loaded as well. Such a
 * difference arises, for example, if the tokenizer's files were moved, or if Megatron names the tokenizer's
 * class differently.
 */
export function cachedIndex<S extends Record<string, CachedArraySpecification>>(
  options: IndexCacheOptions<S>,
): Arrays<S> {
  const { directory, className, split, description, build, onEvent } = options;
  const started = performance.now();
  const md5 = createHash('md5').update(description, 'utf8').digest('hex');
  const name = split === undefined ? `${md5}-${className}` : `${md5}-${className}-${split}`;
  const report = (kind: IndexCacheEvent['kind'], where: string, reason?: string) =>
    onEvent?.({
      kind,
      directory: where,
      name,
      ...(reason === undefined ? {} : { reason }),
      milliseconds: performance.now() - started,
    });
  if (directory === undefined) return build();
  const found = load({ ...options, directory, name });
  if (typeof found === 'object') {
    report('loaded', directory);
    return found;
  }
  if (found === 'absent') {
    const other = loadOfOtherTokenizer({ ...options, directory, name: name.slice(md5.length) });
    if (other !== undefined) {
      report('loaded', directory);
      return other;
    }
  }
  const arrays = build();
  try {
    store({ ...options, directory, name }, arrays);
    if (found === 'absent') report('built', directory);
    else report('rebuilt', directory, found);
  } catch (error) {
    // The data directory is often read-only. In this case, the run continues, and the user gets a message.
    report('not-written', directory, error instanceof Error ? error.message : String(error));
  }
  return arrays;
}

type Located<S extends Record<string, CachedArraySpecification>> = IndexCacheOptions<S> & {
  directory: string;
  name: string;
};

/** Returns the arrays, or 'absent', or a description of the files' defect. */
function load<S extends Record<string, CachedArraySpecification>>(options: Located<S>): Arrays<S> | string {
  const { directory, name, description, arrays, check } = options;
  try {
    const stored = readRegularFile(join(directory, `${name}-description.txt`)).toString('utf8');
    if (stored !== description) return 'its description is not the one its name is made of';
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'absent' : String(error);
  }
  const loaded: Record<string, NpyArrays[NpyDescription]> = {};
  for (const [key, { descr, shape }] of Object.entries(arrays)) {
    try {
      loaded[key] = readNpy({ path: join(directory, `${name}-${key}.npy`), descr, shape });
    } catch (error) {
      return `${key}.npy: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
  return check(loaded as Arrays<S>) ?? (loaded as Arrays<S>);
}

/**
 * Returns an index whose description differs only in the tokenizer, or undefined. `name` is the part of the
 * file names that does not depend on the tokenizer.
 */
function loadOfOtherTokenizer<S extends Record<string, CachedArraySpecification>>(
  options: Located<S>,
): Arrays<S> | undefined {
  const { directory, name: end } = options;
  const endOfFile = `${end}-description.txt`;
  const wanted = withoutTokenizers(options.description);
  for (const file of listFiles(directory)) {
    if (!file.endsWith(endOfFile) || file.length !== md5Length + endOfFile.length) continue;
    const description = descriptionIn(join(directory, file));
    if (description === undefined || withoutTokenizers(description) !== wanted) continue;
    const found = load({ ...options, description, name: file.slice(0, md5Length) + end });
    if (typeof found === 'object') return found;
  }
  return undefined;
}

const md5Length = 32;

function listFiles(directory: string): readonly string[] {
  try {
    return readdirSync(directory).sort();
  } catch {
    // if the directory does not exist, nothing is cached; any other error occurs again when the index is
    // stored
    return [];
  }
}

function descriptionIn(path: string): string | undefined {
  try {
    return readRegularFile(path).toString('utf8');
  } catch {
    return undefined; // the file was removed meanwhile or cannot be read, so it is not used
  }
}

/**
 * Returns a description without its tokenizer fields, as a JSON string; undefined if the description is not
 * JSON.
 */
function withoutTokenizers(description: string): string | undefined {
  try {
    return JSON.stringify(JSON.parse(description), (key, value) => (key === 'tokenizer' ? undefined : value));
  } catch {
    return undefined;
  }
}

function store<S extends Record<string, CachedArraySpecification>>(
  options: Located<S>,
  values: Arrays<S>,
): void {
  const { directory, name, description, arrays } = options;
  for (const [key, { descr, shape }] of Object.entries(arrays)) {
    const [rows, ...row] = shape;
    const built = values[key]!;
    const shapeBuilt = [rows ?? built.length / row.reduce((count, dim) => count * dim, 1), ...row];
    writeNpy({ path: join(directory, `${name}-${key}.npy`), descr, shape: shapeBuilt, values: built });
  }
  // the description is written last, so that a reader that finds the description also finds the arrays
  writeFileAtomically(join(directory, `${name}-description.txt`), [description]);
}

/**
 * The typed arrays for the element types of index files. Arrays of `<i8` become float64 arrays with exact
 * values.
 */
interface NpyArrays {
  '<i2': Int16Array;
  '<i4': Int32Array;
  '<u4': Uint32Array;
  '<i8': Float64Array;
}
type NpyDescription = keyof NpyArrays;

const itemSizes: Record<NpyDescription, number> = { '<i2': 2, '<i4': 4, '<u4': 4, '<i8': 8 };
const magic = Buffer.from('\x93NUMPY\x01\x00', 'latin1');
const preambleBytes = magic.length + 2;

/**
 * Writes an array atomically in NumPy's format version 1.0. The file has the same bytes as the output of
 * `numpy.save`.
 */
function writeNpy<D extends NpyDescription>(options: {
  path: string;
  descr: D;
  shape: readonly number[];
  values: NpyArrays[D];
}): void {
  const { path, descr, shape, values } = options;
  const shapeText = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(', ')})`;
  const header = `{'descr': '${descr}', 'fortran_order': False, 'shape': ${shapeText}, }`;
  const padding = (64 - ((preambleBytes + header.length + 1) % 64)) % 64;
  const text = `${header}${' '.repeat(padding)}\n`;
  const size = Buffer.alloc(2);
  size.writeUInt16LE(text.length);
  const data = values instanceof Float64Array ? float64ToInt64Bits(values) : values;
  writeFileAtomically(path, [magic, size, Buffer.from(text, 'latin1'), data]);
}

/**
 * Reads an array, which must have the given element type and shape. Throws an Error that describes the
 * mismatch.
 */
function readNpy<D extends NpyDescription>(options: {
  path: string;
  descr: D;
  /** The expected shape. An undefined dimension may have any size. */
  shape: readonly (number | undefined)[];
}): NpyArrays[D] {
  const { path, descr, shape } = options;
  const { descriptor, size } = openRegularFile(path);
  try {
    const { header, dataOffset } = readHeader(descriptor);
    const fields =
      /^\{'descr': '([^']+)', 'fortran_order': (True|False), 'shape': \(([\d, ]*)\), \}\s*$/.exec(header);
    if (fields === null) throw new Error('its header is not one of an array');
    const dims = fields[3]!.split(',').filter((dim) => dim.trim() !== '');
    const fits =
      dims.length === shape.length && dims.every((dim, i) => Number(dim) === (shape[i] ?? Number(dim)));
    if (fields[1] !== descr || fields[2] !== 'False' || !fits) {
      const expected = shape.map((dim) => dim ?? 'any').join(', ');
      throw new Error(`it holds ${fields[1]} (${dims.join(', ')}), expected ${descr} (${expected})`);
    }
    const length = dims.reduce((count, dim) => count * Number(dim), 1);
    const bytes = size - dataOffset;
    if (bytes !== length * itemSizes[descr]) throw new Error(`it holds ${bytes} bytes of data`);
    const values = allocate(descr, length);
    if (readFully(descriptor, values, dataOffset) !== values.byteLength)
      throw new Error('it shrank while read');
    return (descr === '<i8' ? int64BitsToFloat64(values as Float64Array) : values) as NpyArrays[D];
  } finally {
    closeSync(descriptor);
  }
}

function readHeader(descriptor: number): { header: string; dataOffset: number } {
  const preamble = Buffer.alloc(preambleBytes);
  const read = readFully(descriptor, preamble, 0);
  if (read < preambleBytes || !preamble.subarray(0, magic.length).equals(magic)) {
    throw new Error('it is not a NumPy file of version 1.0');
  }
  const header = Buffer.alloc(preamble.readUInt16LE(magic.length));
  if (readFully(descriptor, header, preambleBytes) !== header.length)
    throw new Error('its header is truncated');
  return { header: header.toString('latin1'), dataOffset: preambleBytes + header.length };
}

function allocate(descr: NpyDescription, length: number): NpyArrays[NpyDescription] {
  if (descr === '<i2') return sharedInt16Array(length);
  if (descr === '<i4') return sharedInt32Array(length);
  if (descr === '<u4') return sharedUint32Array(length);
  return sharedFloat64Array(length);
}
