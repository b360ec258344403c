import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type Dtype, PickledObject, TorchFile, type TorchTensor } from '@mtl/checkpoint';
import type { WeightFiles } from '../huggingface/weight-files.js';
import { expertsOfRank } from './experts-of-rank.js';
import { megatronArguments } from './megatron-arguments.js';
import {
  type MegatronFiles,
  megatronError,
  readCount,
  type StoredArchitecture,
  wholeWeights,
  withoutPadding,
} from './megatron-files.js';
import { nameOfMegatron, parseExpertTensor, parseLayer } from './megatron-names.js';
import { chooseSplit, flattenedTensors, mergeShard, wholeShape } from './merge-shards.js';

/**
 * The rank that wrote a file: its tensor-, pipeline- and expert-parallel ranks, parsed from the folder's
 * name, which is `mp_rank_TT`, `mp_rank_TT_PPP`, `mp_rank_TT_EEE` or `mp_rank_TT_PPP_EEE`.
 */
interface Rank {
  readonly tensorParallel: number;
  readonly pipelineParallel: number;
  readonly expertParallel: number;
  readonly folder: string;
}

/** A rank's open file, with the tensors of each model chunk by their names in the file. */
interface RankFile {
  readonly rank: Rank;
  readonly file: TorchFile;
  readonly chunks: readonly ReadonlyMap<string, TorchTensor>[];
}

/** A complete tensor. `fill` merges it from the ranks' shards. */
interface MergedTensor {
  readonly shape: readonly number[];
  readonly dtype: Dtype;
  fill(target: Uint8Array): Promise<void>;
}

const fileName = 'model_optim_rng.pt';

/**
 * Opens a checkpoint of the format `torch`, which has a file for each tensor-, pipeline- and expert-parallel
 * rank. All files stay open until `close`.
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
    const content = readContent(first.file);
    const version = content.get('checkpoint_version') ?? 0;
    if (typeof version !== 'number' || !(version >= 0 && version < 4)) {
      throw megatronError(first.file.path, `checkpoint_version is ${String(version)}`, {
        expected: '0 to 3',
      });
    }
    return {
      path,
      arguments: content.get('args'),
      iteration: readCount(content.get('iteration')),
      names: [...new Set(files.flatMap(({ chunks }) => chunks.flatMap((chunk) => [...chunk.keys()])))],
      weights: (architecture) => legacyWeights({ path, files, version, architecture }),
      close: async () => void (await Promise.all(files.map(({ file }) => file.close()))),
    };
  } catch (error) {
    await Promise.allSettled(files.map(({ file }) => file.close()));
    throw error;
  }
}

const axes = ['tensorParallel', 'pipelineParallel', 'expertParallel'] as const;

/**
 * Returns the ranks that a directory contains, sorted by pipeline, then expert, then tensor parallelism.
 * Throws an error if a rank is missing.
 */
async function ranksIn(path: string): Promise<readonly Rank[]> {
  const folders = (await readdir(path)).flatMap((folder) => {
    const match = /^mp_rank_(\d{2,6})(?:_(\d{3,6}))?(?:_(\d{3,6}))?$/.exec(folder);
    return match === null
      ? []
      : [{ folder, numbers: match.slice(1).flatMap((text) => (text ? [Number(text)] : [])) }];
  });
  // if a name has two numbers, the second number is the pipeline stage or, if there are no stages, the
  // expert-parallel rank
  const isOfExperts =
    folders.every(({ numbers }) => numbers.length === 2) && (await hasExpertsOnly(path, folders[0]?.folder));
  const ranks = folders.map(({ folder, numbers: [tensorParallel = 0, second = 0, third = 0] }): Rank => {
    const [pipelineParallel, expertParallel] = isOfExperts ? [0, second] : [second, third];
    return { folder, tensorParallel, pipelineParallel, expertParallel };
  });
  const sizes = axes.map((axis) => 1 + Math.max(0, ...ranks.map((rank) => rank[axis])));
  const numRanks = sizes.reduce((product, size) => product * size, 1);
  if (ranks.length !== numRanks) {
    const [numShards, numStages, numExperts] = sizes as [number, number, number];
    const ofExperts = numExperts === 1 ? '' : ` and expert-parallel size ${numExperts}`;
    throw megatronError(
      path,
      `it has ${ranks.length} folders mp_rank_TT_PPP, of tensor-parallel size ${numShards} and pipeline-parallel size ${numStages}${ofExperts}`,
      { expected: `${numRanks} folders: one for each rank` },
    );
  }
  const order = ({ pipelineParallel, expertParallel, tensorParallel }: Rank): readonly number[] => [
    pipelineParallel,
    expertParallel,
    tensorParallel,
  ];
  return ranks.toSorted((one, other) => {
    const differences = order(one).map((number, index) => number - order(other)[index]!);
    return differences.find((difference) => difference !== 0) ?? 0;
  });
}

/**
 * Returns true if the training run used expert parallelism but no pipeline stages, according to one rank's
 * args.
 */
async function hasExpertsOnly(path: string, folder: string | undefined): Promise<boolean> {
  if (folder === undefined) return false;
  const file = await TorchFile.open(join(path, folder, fileName));
  try {
    const { values } = megatronArguments(readContent(file).get('args'), file.path);
    const isAbove1 = (value: unknown): boolean => typeof value === 'number' && value > 1;
    return isAbove1(values.expert_model_parallel_size) && !isAbove1(values.pipeline_model_parallel_size);
  } finally {
    await file.close();
  }
}

async function openRank(path: string, rank: Rank): Promise<RankFile> {
  const file = await TorchFile.open(join(path, rank.folder, fileName));
  try {
    const content = readContent(file);
    // with a virtual pipeline, the keys are model0, model1 and so on
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

function readContent({ content, path }: TorchFile): ReadonlyMap<unknown, unknown> {
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
  const tensors = mergedTensors(options);
  return wholeWeights({
    path: options.path,
    tensors,
    fill: (name, target) => tensors.get(name)!.fill(target),
  });
}

/**
 * The tensors of a model chunk on one rank, by our names. Layer indices count from the start of the chunk.
 */
interface RankTensors {
  readonly rank: Rank;
  readonly file: TorchFile;
  readonly tensors: ReadonlyMap<string, TorchTensor>;
}

interface Merging {
  /** The ranks of one pipeline stage, sorted by expert parallelism, then by tensor parallelism. */
  readonly ranks: readonly RankTensors[];
  readonly version: number;
  readonly architecture: StoredArchitecture;
}

/** Returns the tensors of all chunks, merged from all ranks' shards. Layer indices are global. */
function mergedTensors(options: {
  readonly files: readonly RankFile[];
  readonly version: number;
  readonly architecture: StoredArchitecture;
}): ReadonlyMap<string, MergedTensor> {
  const { files, version, architecture } = options;
  const numStages = files.at(-1)!.rank.pipelineParallel + 1;
  const stages = Array.from({ length: numStages }, (_, stage) =>
    files.filter(({ rank }) => rank.pipelineParallel === stage),
  );
  const numChunks = Math.max(...files.map(({ chunks }) => chunks.length));
  const tensors = new Map<string, MergedTensor>();
  let firstLayer = 0;
  // a virtual pipeline assigns its chunks to the stages in turn, so stage 0 has the first chunk
  for (let chunk = 0; chunk < numChunks; chunk++) {
    for (const ranksOfStage of stages) {
      const ranks = ranksOfStage.map(({ rank, file, chunks }) => ({
        rank,
        file,
        tensors: namedTensors(chunks[chunk], architecture),
      }));
      const numLayers = countLayers(ranks[0]!.tensors.keys());
      const add = (name: string, merge: () => MergedTensor): void => {
        const layer = parseLayer(name);
        const whole = layer === undefined ? name : `${layer.start}${layer.layer + firstLayer}${layer.rest}`;
        // a tied embedding occurs a second time on the last stage
        if (!tensors.has(whole)) tensors.set(whole, merge());
      };
      for (const name of new Set(ranks.flatMap((rank) => [...rank.tensors.keys()]))) {
        const experts = parseExpertTensor(name);
        const merging = { ranks, version, architecture };
        if (experts === undefined) add(name, () => shardedTensor(name, merging));
        else add(experts.name, () => expertTensor(experts.name, merging));
      }
      firstLayer += numLayers;
    }
  }
  return tensors;
}

/**
 * Returns the tensors of a model chunk on one rank, by our names. Layer indices count from the start of the
 * chunk.
 */
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

const countLayers = (names: Iterable<string>): number =>
  Math.max(0, ...[...names].map((name) => (parseLayer(name)?.layer ?? -1) + 1));

/**
 * Merges a tensor from the shards of tensor-parallel ranks. The tensor is replicated over expert-parallel
 * ranks.
 */
function shardedTensor(name: string, { ranks, version, architecture }: Merging): MergedTensor {
  const split = chooseSplit(name, architecture);
  const shards = ranks
    .filter(({ rank }) => rank.expertParallel === 0)
    .map(({ file, tensors }) => {
      const tensor = tensors.get(name);
      if (tensor !== undefined) return { file, tensor };
      throw megatronError(file.path, `${name} is missing, which other ranks of tensor parallelism have`);
    });
  const [{ tensor: first, file }] = shards as [(typeof shards)[number]];
  const numRows = first.shape[0] ?? 1;
  const divisor =
    split === 'gated-rows' ? 2 : split === 'qkv-rows' && version < 2 ? 3 * architecture.headSize : 1;
  for (const shard of shards) {
    checkAlike(name, shard, { file, tensor: first });
    const fits = numRows > 0 && numRows % divisor === 0 && (split !== 'columns' || first.shape.length === 2);
    if (!fits) {
      const shape = `[${shard.tensor.shape.join(', ')}]`;
      throw megatronError(shard.file.path, `${name} has the shape ${shape}`, {
        expected: `${divisor}n rows`,
      });
    }
  }
  const shape = withoutPadding(name, wholeShape(first.shape, split, shards.length), architecture);
  // a replicated tensor is read from only one rank
  const read = split === 'none' ? shards.slice(0, 1) : shards;
  const qkv = { version, headSize: architecture.headSize };
  return {
    shape,
    dtype: first.dtype,
    fill: async (target) => {
      for (const [shard, own] of read.entries()) {
        const bytes = await own.file.readTensor(own.tensor);
        mergeShard({ target, bytes, shape: own.tensor.shape, split, shard, numShards: read.length, qkv });
      }
    },
  };
}

/** A tensor in a rank's file. */
interface OwnTensor {
  readonly file: TorchFile;
  readonly tensor: TorchTensor;
}

/** Rejects tensors whose shapes or dtypes differ between ranks. */
function checkAlike(name: string, { file, tensor }: OwnTensor, first: OwnTensor): void {
  if (tensor.dtype === first.tensor.dtype && tensor.shape.join() === first.tensor.shape.join()) return;
  const shape = `[${tensor.shape.join(', ')}]`;
  const expected = `${first.tensor.dtype} [${first.tensor.shape.join(', ')}], as in ${first.file.path}`;
  throw megatronError(file.path, `${name} is ${tensor.dtype} ${shape}`, { expected });
}

/**
 * Merges all experts of a layer. Each expert-parallel rank has the same number of experts, in the order of
 * the ranks.
 */
function expertTensor(name: string, { ranks, architecture, version }: Merging): MergedTensor {
  const split = chooseSplit(name, architecture);
  const numParts = 1 + Math.max(...ranks.map(({ rank }) => rank.expertParallel));
  const ofRank = (architecture.numExperts ?? 0) / numParts;
  if (!Number.isSafeInteger(ofRank) || ofRank === 0) {
    const what = `${architecture.numExperts ?? 0} experts over expert-parallel size ${numParts}`;
    throw megatronError(ranks[0]!.file.path, `its args and ranks make ${what}`);
  }
  const all = ranks.map(({ rank, file, tensors }) => ({
    rank,
    experts: expertsOfRank(name, { file, tensors, split, numExperts: ofRank }),
  }));
  const [first] = all as [(typeof all)[number]];
  const { shape: own, dtype, numExperts } = first.experts;
  for (const { experts } of all) {
    const expected = `${dtype} [${[numExperts, ...own].join(', ')}], as in ${first.experts.path}`;
    const form = `${experts.dtype} [${[experts.numExperts, ...experts.shape].join(', ')}]`;
    if (form === `${dtype} [${[numExperts, ...own].join(', ')}]`) continue;
    throw megatronError(experts.path, `the experts of ${name} are ${form}`, { expected });
  }
  const numShards = 1 + Math.max(...ranks.map(({ rank }) => rank.tensorParallel));
  const shape = [(all.length / numShards) * numExperts, ...wholeShape(own, split, numShards)];
  const qkv = { version, headSize: architecture.headSize };
  return {
    shape,
    dtype,
    fill: async (target) => {
      const bytesOfExpert = target.length / shape[0]!;
      for (const { rank, experts } of all) {
        await experts.read((bytes, expert) => {
          const start = (rank.expertParallel * numExperts + expert) * bytesOfExpert;
          mergeShard({
            target: target.subarray(start, start + bytesOfExpert),
            bytes,
            shape: own,
            split,
            shard: rank.tensorParallel,
            numShards,
            qkv,
          });
        });
      }
    },
  };
}
