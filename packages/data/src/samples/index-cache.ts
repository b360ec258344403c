import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { readRegularFile } from '../files/regular-files.js';
import { writeFileAtomically } from '../files/write-files.js';
import type { IndexCacheEvent } from './index-cache-event.js';
import { type NpyArrays, type NpyDescription, readNpy, writeNpy } from './npy.js';
import type { SampleIndexSettings } from './sample-index-options.js';

/** One array of a cached index. */
export interface CachedArraySpecification<D extends NpyDescription = NpyDescription> {
  readonly descr: D;
  /** Undefined for the first size when only building tells it. */
  readonly shape: readonly [number | undefined, ...number[]];
}

/**
 * Where the indices of a dataset are kept: Megatron's place unless another is named; undefined for nowhere.
 */
export function indexCacheDirectory(
  { prefix, cacheDirectory }: { readonly prefix: string } & Pick<SampleIndexSettings, 'cacheDirectory'>,
  className: string,
): string | undefined {
  // a directory named as the prefix, next to the two files
  return cacheDirectory === false
    ? undefined
    : (cacheDirectory ?? join(prefix, 'cache', `${className}_indices`));
}

type Arrays<S> = { [K in keyof S]: S[K] extends CachedArraySpecification<infer D> ? NpyArrays[D] : never };

/** How to find, check or build an index. */
export interface IndexCacheOptions<S extends Record<string, CachedArraySpecification>> {
  /** Where the files lie; undefined builds without a cache. */
  readonly directory: string | undefined;
  /** Megatron's name of the class, such as `GPTDataset`. */
  readonly className: string;
  /** Undefined where the files' names do not tell the split. */
  readonly split?: string | undefined;
  /** Text whose md5 names the files. */
  readonly description: string;
  /** Name (as in `{name}.npy`), element type and shape of each array. */
  readonly arrays: S;
  readonly build: () => Arrays<S>;
  /** Says what is wrong with loaded arrays, or nothing. */
  readonly check: (arrays: Arrays<S>) => string | undefined;
  readonly onEvent?: ((event: IndexCacheEvent) => void) | undefined;
}

/**
 * Loads an index from Megatron's cache files, or builds and stores it. Files appear atomically, arrays are
 * checked when loaded; a broken cache is built again and the event reports why. Descriptions name the
 * tokenizer, and so do their md5; but an index has nothing of it, so that one is loaded whose description
 * differs only there: that of a tokenizer which was moved, or which Megatron calls by another class.
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
    // A read-only place for data is common; the run can go on, the user hears of it.
    report('not-written', directory, error instanceof Error ? error.message : String(error));
  }
  return arrays;
}

type Located<S extends Record<string, CachedArraySpecification>> = IndexCacheOptions<S> & {
  directory: string;
  name: string;
};

/** The arrays, or 'absent', or what is wrong with the files. */
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

/** An index whose description differs in tokenizers alone; `name` is what names end in. */
function loadOfOtherTokenizer<S extends Record<string, CachedArraySpecification>>(
  options: Located<S>,
): Arrays<S> | undefined {
  const { directory, name: end } = options;
  const endOfFile = `${end}-description.txt`;
  const wanted = withoutTokenizers(options.description);
  for (const file of filesOf(directory)) {
    if (!file.endsWith(endOfFile) || file.length !== md5Length + endOfFile.length) continue;
    const description = descriptionIn(join(directory, file));
    if (description === undefined || withoutTokenizers(description) !== wanted) continue;
    const found = load({ ...options, description, name: file.slice(0, md5Length) + end });
    if (typeof found === 'object') return found;
  }
  return undefined;
}

const md5Length = 32;

function filesOf(directory: string): readonly string[] {
  try {
    return readdirSync(directory).sort();
  } catch {
    // nothing is cached where there is no directory; what else is wrong shows when the index is stored
    return [];
  }
}

function descriptionIn(path: string): string | undefined {
  try {
    return readRegularFile(path).toString('utf8');
  } catch {
    return undefined; // removed meanwhile, or not readable: not a cache to use
  }
}

/** What a description says about anything else; undefined for text that is not JSON. */
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
  // The description comes last: who finds it finds the arrays.
  writeFileAtomically(join(directory, `${name}-description.txt`), [description]);
}
