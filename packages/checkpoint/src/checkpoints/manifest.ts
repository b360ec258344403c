import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { UsageError } from '@mtl/errors';
import { coverDefect, type Dtype, shapeDefect, slicesDefect } from '@mtl/layout';
import { checksumBlockBytes } from '../files/block-checksums.js';
import { isDtype } from '../tensors/dtype.js';
import { bytesOfSlices } from '../tensors/logical-tensor.js';
import { type StoredSlice, slicesFromStored } from '../tensors/stored-slices.js';

/** A value that JSON represents without loss. */
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

/**
 * Returns a description of the first value that a round trip through JSON would change, with its path;
 * undefined if no value would change.
 */
function findDefect(value: unknown, path: string): string | undefined {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return undefined;
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : `${path} is ${value}`;
  if (typeof value !== 'object') return `${path} is a ${typeof value}`;
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const defect = findDefect(value[index], `${path}[${index}]`);
      if (defect !== undefined) return defect;
    }
    return undefined;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    return `${path} is a ${(value as object).constructor?.name ?? 'class instance'}`;
  }
  for (const [key, member] of Object.entries(value)) {
    const defect = findDefect(member, `${path}.${key}`);
    if (defect !== undefined) return defect;
  }
  return undefined;
}

/**
 * Checks that JSON can represent a checkpoint's state without loss. JSON.stringify would silently turn NaN
 * into null and drop undefined, and a resumed run would continue with wrong values. (The sign of -0 is lost.)
 *
 * @throws UsageError MTL_CHECKPOINT_STATE, whose message names the member that JSON would change
 */
export function checkJsonState(state: unknown): asserts state is JsonObject {
  const isObject = typeof state === 'object' && state !== null && !Array.isArray(state);
  const defect = isObject ? findDefect(state, 'state') : 'state is not an object';
  if (defect === undefined) return;
  throw new UsageError('MTL_CHECKPOINT_STATE', `a checkpoint cannot hold this state: ${defect}`, {
    expected: 'finite numbers, strings, booleans, null, arrays and plain objects',
    remedy: 'store large or binary values as tensors, bigints as strings, and leave absent members out',
  });
}

/** A box (rectangular slice) of a tensor that is stored contiguously. */
export interface PieceRecord {
  /** The index in the manifest's list of shards. */
  readonly shard: number;
  /**
   * The name of the piece in the shard file: the tensor's logical name, followed by `#n` for further pieces
   * of the tensor.
   */
  readonly key: string;
  readonly slices: readonly StoredSlice[];
  /** CRC-32 of each block of the piece's bytes. */
  readonly crc32: readonly number[];
}

/** A tensor of a checkpoint. The pieces in the shards cover the tensor completely and without overlap. */
export interface TensorRecord {
  readonly name: string;
  readonly dtype: Dtype;
  readonly globalShape: readonly number[];
  readonly pieces: readonly PieceRecord[];
}

/** A shard file of a checkpoint. */
export interface ShardRecord {
  readonly file: string;
  readonly bytes: number;
  readonly headerBytes: number;
  /** CRC-32 of each block of the header. */
  readonly headerCrc32: readonly number[];
}

/** The contents of a checkpoint's manifest.json. */
export interface Manifest {
  readonly iteration: number;
  /**
   * When the checkpoint was saved, in milliseconds since 1970. The value always increases within a directory,
   * so it also defines the order of the checkpoints.
   */
  readonly savedAtMs: number;
  /** The number of ranks that saved the checkpoint. */
  readonly worldSize: number;
  readonly libraryVersion: string;
  /**
   * The run that saved the checkpoint. Jobs that continue each other belong to the same run. Absent in
   * checkpoints of older versions, and if no run saved the checkpoint (a converted checkpoint).
   */
  readonly run?: string;
  readonly state: JsonObject;
  readonly shards: readonly ShardRecord[];
  readonly tensors: readonly TensorRecord[];
}

export const manifestName = 'manifest.json';
/** The maximum size of a manifest, in bytes: enough for a checkpoint of 100 TB in blocks of 4 MiB. */
export const maxManifestBytes = 400 * 1024 * 1024;
const manifestFormat = 'mtl-checkpoint';
/** The version of the format. It is raised when older readers could misread a checkpoint. */
const manifestVersion = 1;

/**
 * Returns the SHA-256 of the content as JSON.stringify writes it, so that reformatting the file does not
 * change it.
 */
function manifestDigest(content: unknown): string {
  return createHash('sha256').update(JSON.stringify(content)).digest('hex');
}

export function encodeManifest(content: Manifest): string {
  const sha256 = manifestDigest(content);
  return `${JSON.stringify({ format: manifestFormat, formatVersion: manifestVersion, sha256, content })}\n`;
}

/**
 * The reason why a manifest cannot be used. `newer` is true if a later version of the format wrote the
 * manifest.
 */
interface ManifestDefect {
  readonly problem: string;
  readonly newer?: boolean;
}

type Unknown = Readonly<Record<string, unknown>>;

class Problem extends Error {}

function demand(condition: boolean, problem: string): asserts condition {
  if (!condition) throw new Problem(problem);
}

function record(value: unknown, what: string): Unknown {
  demand(typeof value === 'object' && value !== null && !Array.isArray(value), `${what} is not an object`);
  return value as Unknown;
}

function list(value: unknown, what: string): readonly unknown[] {
  demand(Array.isArray(value), `${what} is not a list`);
  return value;
}

function count(value: unknown, what: string): number {
  demand(Number.isSafeInteger(value) && (value as number) >= 0, `${what} is not a count`);
  return value as number;
}

/** Returns a time in milliseconds since 1970, after checking that a Date can represent it. */
function date(value: unknown, what: string): number {
  const ms = count(value, what);
  demand(!Number.isNaN(new Date(ms).getTime()), `${what} is not a time`);
  return ms;
}

function text(value: unknown, what: string): string {
  demand(typeof value === 'string' && value !== '', `${what} is not a text`);
  return value;
}

function checksums(
  value: unknown,
  options: { readonly bytes: number; readonly what: string },
): readonly number[] {
  const values = list(value, options.what).map((crc) => count(crc, options.what));
  const blocks = Math.ceil(options.bytes / checksumBlockBytes);
  demand(values.length === blocks, `${options.what} has ${values.length} checksums for ${blocks} blocks`);
  return values;
}

function parseShard(value: unknown, index: number): ShardRecord {
  const what = `shard ${index}`;
  const { file, bytes, headerBytes, headerCrc32 } = record(value, what);
  const name = text(file, `${what}'s file`);
  demand(
    name === basename(name) && !/[\\\0]|^\.\.?$/.test(name),
    `${what}'s file is not next to the manifest`,
  );
  const header = count(headerBytes, `${what}'s headerBytes`);
  return {
    file: name,
    bytes: count(bytes, `${what}'s bytes`),
    headerBytes: header,
    headerCrc32: checksums(headerCrc32, { bytes: header, what: `${what}'s headerCrc32` }),
  };
}

function parseSlices(value: unknown, what: string): readonly StoredSlice[] {
  return list(value, what).map((slice) => {
    const [start, end, ...rest] = list(slice, what);
    demand(rest.length === 0, `${what} is not of pairs`);
    return [count(start, what), count(end, what)] as const;
  });
}

function parseTensor(value: unknown, shards: number): TensorRecord {
  const { name: rawName, dtype, globalShape, pieces } = record(value, 'a tensor');
  const name = text(rawName, "a tensor's name");
  const what = `tensor ${JSON.stringify(name)}`;
  demand(isDtype(dtype), `${what} has the unknown dtype ${JSON.stringify(dtype)}`);
  const shape = list(globalShape, `${what}'s globalShape`);
  const badShape = shapeDefect(shape);
  demand(badShape === undefined, `${what}: ${badShape}`);
  const parsed = list(pieces, `${what}'s pieces`).map((piece): PieceRecord => {
    const { shard, key, slices: rawSlices, crc32 } = record(piece, `a piece of ${what}`);
    const stored = parseSlices(rawSlices, `${what}'s slices`);
    const slices = slicesFromStored(stored);
    const badSlices = slicesDefect(slices, shape as number[]);
    demand(badSlices === undefined, `${what}: ${badSlices}`);
    const index = count(shard, `${what}'s shard`);
    demand(index < shards, `${what} lies in shard ${index} of ${shards}`);
    const bytes = bytesOfSlices(dtype, slices);
    return {
      shard: index,
      key: text(key, `${what}'s key`),
      slices: stored,
      crc32: checksums(crc32, { bytes, what: `${what}'s crc32` }),
    };
  });
  const badCover = coverDefect(
    shape as number[],
    parsed.map((piece) => slicesFromStored(piece.slices)),
  );
  demand(badCover === undefined, `${what}: ${badCover}`);
  return { name, dtype, globalShape: shape as number[], pieces: parsed };
}

/** Parses and checks the text of a manifest.json. Returns a defect if the manifest is unusable. */
export function parseManifest(source: string): Manifest | ManifestDefect {
  let outer: unknown;
  try {
    outer = JSON.parse(source);
  } catch (error) {
    return { problem: `manifest.json is not whole JSON (${(error as Error).message})` };
  }
  try {
    const { format, formatVersion, sha256, content } = record(outer, 'manifest.json');
    demand(format === manifestFormat, `manifest.json has the format ${JSON.stringify(format)}`);
    const version = count(formatVersion, 'formatVersion');
    if (version > manifestVersion) {
      const problem = `it has format version ${version}, and this program reads up to ${manifestVersion}`;
      return { problem, newer: true };
    }
    demand(content !== undefined, 'manifest.json has no content');
    demand(sha256 === manifestDigest(content), 'manifest.json does not have its SHA-256');
    const body = record(content, 'content');
    const shards = list(body.shards, 'shards').map(parseShard);
    const tensors = list(body.tensors, 'tensors').map((tensor) => parseTensor(tensor, shards.length));
    demand(
      new Set(tensors.map(({ name }) => name)).size === tensors.length,
      'two tensors have the same name',
    );
    return {
      iteration: count(body.iteration, 'iteration'),
      savedAtMs: date(body.savedAtMs, 'savedAtMs'),
      worldSize: count(body.worldSize, 'worldSize'),
      libraryVersion: text(body.libraryVersion, 'libraryVersion'),
      ...(body.run === undefined ? {} : { run: text(body.run, 'run') }),
      state: record(body.state, 'state') as JsonObject,
      shards,
      tensors,
    };
  } catch (error) {
    if (error instanceof Problem) return { problem: error.message };
    // the JSON is nested too deeply for the stack or is too long for a string
    if (error instanceof RangeError) return { problem: `manifest.json cannot be read (${error.message})` };
    throw error;
  }
}
