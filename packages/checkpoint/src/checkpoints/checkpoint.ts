import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { CheckpointError, type MtlError } from '@mtl/errors';
import { readRegularFile } from '../files/file-system.js';
import { ioError, systemCode } from '../files/io-error.js';
import {
  type JsonObject,
  type Manifest,
  manifestName,
  maxManifestBytes,
  parseManifest,
  type TensorRecord,
} from './manifest.js';
import { jobOfCheckpoint } from './save-owner.js';

/** A published checkpoint whose manifest has been read and is valid. */
export class Checkpoint {
  /** The directory, `.../iter_0000123`. */
  readonly path: string;
  readonly manifest: Manifest;
  /** Tensors by logical name. */
  readonly tensors: ReadonlyMap<string, TensorRecord>;
  /** True if every byte of every shard has been compared with its checksum. */
  readonly verified: boolean;

  constructor(options: { readonly path: string; readonly manifest: Manifest; readonly verified: boolean }) {
    this.path = options.path;
    this.manifest = options.manifest;
    this.tensors = new Map(options.manifest.tensors.map((tensor) => [tensor.name, tensor]));
    this.verified = options.verified;
  }

  get iteration(): number {
    return this.manifest.iteration;
  }

  /** The state that was passed to the save. */
  get state(): JsonObject {
    return this.manifest.state;
  }

  /**
   * Opens the checkpoint at `path`. Shards are not checked.
   *
   * @throws CheckpointError MTL_CHECKPOINT_CORRUPT if the manifest is missing or incomplete,
   *   MTL_CHECKPOINT_VERSION if its format version is newer than this library's, MTL_CHECKPOINT_IO, _DENIED
   */
  static async open(path: string): Promise<Checkpoint> {
    let text: string;
    try {
      text = await readRegularFile(join(path, manifestName), { maxBytes: maxManifestBytes });
    } catch (error) {
      if (systemCode(error) !== 'ENOENT') throw ioError(error, { action: 'read', path });
      throw corruptCheckpoint(path, await describeMissingManifest(path));
    }
    const manifest = parseManifest(text);
    if (!('problem' in manifest)) return new Checkpoint({ path, manifest, verified: false });
    if (manifest.newer !== true) throw corruptCheckpoint(path, manifest.problem);
    throw new CheckpointError('MTL_CHECKPOINT_VERSION', `${path}: ${manifest.problem}`, {
      remedy: 'update @mtl/checkpoint to the version that saved it',
      details: { path },
    });
  }
}

/**
 * Returns the name of the run that saved a checkpoint, from its manifest. Manifests of older versions contain
 * no run; the result is then the job that saved the checkpoint. Undefined for a checkpoint that no run saved,
 * such as a converted checkpoint.
 *
 * @throws CheckpointError MTL_CHECKPOINT_IO, _DENIED
 */
export async function runOfCheckpoint({ manifest, path }: Checkpoint): Promise<string | undefined> {
  return manifest.run ?? (await jobOfCheckpoint(path));
}

/**
 * Matches names of files in a Megatron-LM checkpoint, in its older format and in the format of
 * torch.distributed.
 */
const megatronFile = /^mp_rank_\d+|\.distcp$/;

async function describeMissingManifest(path: string): Promise<string> {
  const files = await readdir(path).catch((): string[] => []);
  const found = files.find((name) => megatronFile.test(name));
  return found === undefined
    ? `it has no ${manifestName}: @mtl/checkpoint did not write it, or it is torn`
    : `it contains ${found}, as checkpoints of Megatron-LM do; mtl convert --from megatron makes a checkpoint of it`;
}

/** Returns the error MTL_CHECKPOINT_CORRUPT for a checkpoint directory. */
export function corruptCheckpoint(path: string, problem: string): MtlError {
  return new CheckpointError('MTL_CHECKPOINT_CORRUPT', `${path} is not a whole checkpoint: ${problem}`, {
    remedy: 'load an older checkpoint, or copy this one again if it was copied',
    details: { path, problem },
  });
}
