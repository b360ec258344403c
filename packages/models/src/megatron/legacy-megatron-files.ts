import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { PickledObject, TorchFile, type TorchTensor } from '@mtl/checkpoint';
import type { WeightFiles } from '../huggingface/weight-files.js';
import { flattenedTensors } from './flattened-tensors.js';
import { megatronError } from './megatron-error.js';
import { countOf, type MegatronFiles, type StoredArchitecture, withoutPadding } from './megatron-files.js';
import { layerOf, nameOfMegatron } from './megatron-names.js';
import { mergeShard, wholeShape } from './merge-shards.js';
import { splitOf, type TensorSplit } from './tensor-split.js';
import { wholeWeights } from './whole-weights.js';

/** Where a file is in the model: `mp_rank_TT` or `mp_rank_TT_PPP`. */
interface Rank {
  readonly tensorParallel: number;
  readonly pipelineParallel: number;
  readonly folder: string;
}

/** A file, and for each model chunk of the rank the tensors by their names in it. */
interface RankFile {
  readonly rank: Rank;
  readonly file: TorchFile;
  readonly chunks: readonly ReadonlyMap<string, TorchTensor>[];
}

/** A tensor and what ranks of tensor parallelism have of it. */
interface ShardedTensor {
  readonly shards: readonly { readonly file: TorchFile; readonly tensor: TorchTensor }[];
  readonly split: TensorSplit;
  readonly shape: readonly number[];
}

const fileName = 'model_optim_rng.pt';

/**
 * Opens a checkpoint of the format `torch`: a file for each rank of tensor and pipeline parallelism. All are
 * open until `close`.
 *
 * @throws CheckpointError MTL_MEGATRON_CHECKPOINT when files are missing or do not belong together,
 *   MTL_TORCH_FILE_INVALID
 */
export async function openLegacyMegatron(path: string): Promise<MegatronFiles> {
  const ranks = await ranksIn(path);
  const files: RankFile[] = [];
  try {
    for (const rank of ranks) files.push(await openRank(path, rank));
    const [first] = files as [RankFile];
    const content = contentOf(first.file);
    const version = content.get('checkpoint_version') ?? 0;
    if (typeof version !== 'number' || !(version >= 0 && version < 4)) {
      throw megatronError(first.file.path, `checkpoint_version is ${String(version)}`, {
        expected: '0 to 3',
      });
    }
    return {
      path,
      arguments: content.get('args'),
      iteration: countOf(content.get('iteration')),
      names: [...new Set(files.flatMap(({ chunks }) => chunks.flatMap((chunk) => [...chunk.keys()])))],
      weights: (architecture) => legacyWeights({ path, files, version, architecture }),
      close: async () => void (await Promise.all(files.map(({ file }) => file.close()))),
    };
  } catch (error) {
    await Promise.allSettled(files.map(({ file }) => file.close()));
    throw error;
  }
}

/** All ranks of a directory, in the order of pipeline, then of tensor parallelism; none is missing. */
async function ranksIn(path: string): Promise<readonly Rank[]> {
  const ranks = (await readdir(path)).flatMap((folder): Rank[] => {
    const match = /^mp_rank_(\d{2,6})(?:_(\d{3,6}))?(_\d+)?$/.exec(folder);
    if (match === null) return [];
    if (match[3] !== undefined) {
      throw megatronError(path, `${folder} is of a model with experts, which is not supported`, {
        expected: 'mp_rank_TT or mp_rank_TT_PPP',
      });
    }
    return [{ folder, tensorParallel: Number(match[1]), pipelineParallel: Number(match[2] ?? 0) }];
  });
  const sizeOfGroup = (axis: 'tensorParallel' | 'pipelineParallel'): number =>
    1 + Math.max(0, ...ranks.map((rank) => rank[axis]));
  const [numShards, numStages] = [sizeOfGroup('tensorParallel'), sizeOfGroup('pipelineParallel')];
  if (ranks.length !== numStages * numShards) {
    throw megatronError(
      path,
      `it has ${ranks.length} folders mp_rank_TT_PPP, of tensor-parallel size ${numShards} and pipeline-parallel size ${numStages}`,
      { expected: `${numStages * numShards} folders: one for each rank` },
    );
  }
  return ranks.toSorted(
    (one, other) =>
      one.pipelineParallel - other.pipelineParallel || one.tensorParallel - other.tensorParallel,
  );
}

async function openRank(path: string, rank: Rank): Promise<RankFile> {
  const file = await TorchFile.open(join(path, rank.folder, fileName));
  try {
    const content = contentOf(file);
    // with a virtual pipeline: model0, model1 ...
    const models: unknown[] = [];
    while (content.has(`model${models.length}`)) models.push(content.get(`model${models.length}`));
    if (models.length === 0) models.push(content.get('model'));
    const chunks = models.map((model) => flattenedTensors(model, file.path));
    for (const tensors of chunks) {
      for (const tensor of tensors.values()) await file.checkTensor(tensor);
    }
    return { rank, file, chunks };
  } catch (error) {
    await file.close();
    throw error;
  }
}

function contentOf({ content, path }: TorchFile): ReadonlyMap<unknown, unknown> {
  if (content instanceof Map) return content as ReadonlyMap<unknown, unknown>;
  const what = content instanceof PickledObject ? content.path : 'no dictionary';
  throw megatronError(path, `it contains ${what}`, { expected: 'args, checkpoint_version and model' });
}

function legacyWeights(options: {
  readonly path: string;
  readonly files: readonly RankFile[];
  readonly version: number;
  readonly architecture: StoredArchitecture;
}): WeightFiles {
  const { path, version, architecture } = options;
  const { headSize } = architecture;
  const qkv = { version, headSize };
  const tensors = mergedTensors(options);
  return wholeWeights({
    path,
    tensors: new Map(
      [...tensors].map(([name, { shards, shape }]) => [name, { shape, dtype: shards[0]!.tensor.dtype }]),
    ),
    fill: async (name, target) => {
      const { shards, split } = tensors.get(name)!;
      for (const [shard, { file, tensor }] of shards.entries()) {
        const bytes = await file.readTensor(tensor);
        mergeShard({ target, bytes, shape: tensor.shape, split, shard, numShards: shards.length, qkv });
      }
    },
  });
}

/** The tensors of all chunks, layers numbered through, with what each rank has of them. */
function mergedTensors(options: {
  readonly files: readonly RankFile[];
  readonly version: number;
  readonly architecture: StoredArchitecture;
}): ReadonlyMap<string, ShardedTensor> {
  const { files, version, architecture } = options;
  const numStages = files.at(-1)!.rank.pipelineParallel + 1;
  const stages = Array.from({ length: numStages }, (_, stage) =>
    files.filter(({ rank }) => rank.pipelineParallel === stage),
  );
  const numChunks = Math.max(...files.map(({ chunks }) => chunks.length));
  const tensors = new Map<string, ShardedTensor>();
  let firstLayer = 0;
  // the chunks of a virtual pipeline are dealt to its stages in turn
  for (let chunk = 0; chunk < numChunks; chunk++) {
    for (const ranks of stages) {
      const renamed = ranks.map(({ file, chunks }) => ({
        file,
        tensors: namedTensors(chunks[chunk], architecture),
      }));
      const numLayers = numLayersOf(renamed[0]!.tensors.keys());
      for (const name of new Set(renamed.flatMap((rank) => [...rank.tensors.keys()]))) {
        const sharded = shardedTensor(name, { ranks: renamed, version, architecture });
        const layer = layerOf(name);
        const whole = layer === undefined ? name : `${layer.start}${layer.layer + firstLayer}${layer.rest}`;
        // the embedding is on the last stage again where it is tied
        if (!tensors.has(whole)) tensors.set(whole, sharded);
      }
      firstLayer += numLayers;
    }
  }
  return tensors;
}

/** The tensors of a chunk by our names, layers numbered as in the chunk. */
function namedTensors(
  chunk: ReadonlyMap<string, TorchTensor> | undefined,
  { layers }: StoredArchitecture,
): ReadonlyMap<string, TorchTensor> {
  const entries = [...(chunk ?? [])].flatMap(([name, tensor]) => {
    const ours = nameOfMegatron(name, layers);
    return ours === undefined ? [] : [[ours, tensor] as const];
  });
  return new Map(entries);
}

const numLayersOf = (names: Iterable<string>): number =>
  Math.max(0, ...[...names].map((name) => (layerOf(name)?.layer ?? -1) + 1));

function shardedTensor(
  name: string,
  options: {
    readonly ranks: ReadonlyArray<{
      readonly file: TorchFile;
      readonly tensors: ReadonlyMap<string, TorchTensor>;
    }>;
    readonly version: number;
    readonly architecture: StoredArchitecture;
  },
): ShardedTensor {
  const { ranks, version, architecture } = options;
  const split = splitOf(name, architecture);
  const shards = ranks.map(({ file, tensors }) => {
    const tensor = tensors.get(name);
    if (tensor !== undefined) return { file, tensor };
    throw megatronError(file.path, `${name} is missing, which other ranks of tensor parallelism have`);
  });
  const [{ tensor: first }] = shards as [(typeof shards)[number]];
  const numRows = first.shape[0] ?? 1;
  const divisor =
    split === 'gated-rows' ? 2 : split === 'qkv-rows' && version < 2 ? 3 * architecture.headSize : 1;
  for (const { file, tensor } of shards) {
    const shape = `[${tensor.shape.join(', ')}]`;
    if (tensor.dtype !== first.dtype || tensor.shape.join() !== first.shape.join()) {
      const expected = `${first.dtype} [${first.shape.join(', ')}], as in ${shards[0]!.file.path}`;
      throw megatronError(file.path, `${name} is ${tensor.dtype} ${shape}`, { expected });
    }
    const fits = numRows > 0 && numRows % divisor === 0 && (split !== 'columns' || first.shape.length === 2);
    if (!fits)
      throw megatronError(file.path, `${name} has the shape ${shape}`, { expected: `${divisor}n rows` });
  }
  const shape = withoutPadding(name, wholeShape(first.shape, split, shards.length), architecture);
  // what all ranks have is read once
  return { split, shape, shards: split === 'none' ? shards.slice(0, 1) : shards };
}
