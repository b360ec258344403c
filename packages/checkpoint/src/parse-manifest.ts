import { basename } from 'node:path';
import { checksumBlockBytes } from './block-checksums.js';
import { type StoredSlice, shapeDefect, slicesDefect, slicesFromStored } from './boxes.js';
import { coverDefect } from './cover-defect.js';
import { isDtype } from './dtype.js';
import type { JsonObject } from './json-state.js';
import { bytesOfSlices } from './logical-tensor.js';
import {
  type Manifest,
  manifestDigest,
  manifestFormat,
  manifestVersion,
  type PieceRecord,
  type ShardRecord,
  type TensorRecord,
} from './manifest.js';

/** A manifest that cannot be used; `newer` when a later version of the format wrote it. */
export interface ManifestDefect {
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

/** Milliseconds since 1970, within what a Date holds. */
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

/** Parses and checks the text of a manifest.json; a defect instead when it cannot be used. */
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
      state: record(body.state, 'state') as JsonObject,
      shards,
      tensors,
    };
  } catch (error) {
    if (error instanceof Problem) return { problem: error.message };
    // JSON that is nested too deep for the stack, or more of it than a string holds
    if (error instanceof RangeError) return { problem: `manifest.json cannot be read (${error.message})` };
    throw error;
  }
}
