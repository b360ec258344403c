import { createHash } from 'node:crypto';
import type { StoredSlice } from './boxes.js';
import type { Dtype } from './dtype.js';
import type { JsonObject } from './json-state.js';

/** One stored box of a tensor. */
export interface PieceRecord {
  /** Index into the manifest's shards. */
  readonly shard: number;
  /** The tensor's name in the shard file: the logical name, or that with `#n` for further pieces of it. */
  readonly key: string;
  readonly slices: readonly StoredSlice[];
  /** CRC-32 of each block of its bytes. */
  readonly crc32: readonly number[];
}

/** A tensor of a checkpoint; its pieces cover it exactly, without overlap. */
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

/** What a checkpoint's manifest.json says. */
export interface Manifest {
  readonly iteration: number;
  /** Milliseconds since 1970, made to rise within a directory: the order in which checkpoints were saved. */
  readonly savedAtMs: number;
  /** Number of ranks that saved it. */
  readonly worldSize: number;
  readonly libraryVersion: string;
  readonly state: JsonObject;
  readonly shards: readonly ShardRecord[];
  readonly tensors: readonly TensorRecord[];
}

export const manifestName = 'manifest.json';
/** Of a checkpoint of 100 TB in blocks of 4 MiB; more than that is no manifest. */
export const maxManifestBytes = 400 * 1024 * 1024;
export const manifestFormat = 'mtl-checkpoint';
/** Raised when older readers could misread a checkpoint. */
export const manifestVersion = 1;

/** SHA-256 of the content as JSON.stringify prints it, so that reformatting the file does no harm. */
export function manifestDigest(content: unknown): string {
  return createHash('sha256').update(JSON.stringify(content)).digest('hex');
}

/** The text of manifest.json. */
export function encodeManifest(content: Manifest): string {
  const sha256 = manifestDigest(content);
  return `${JSON.stringify({ format: manifestFormat, formatVersion: manifestVersion, sha256, content })}\n`;
}
