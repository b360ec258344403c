import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { DistributedTorchDirectory, TorchFile } from '@mtl/checkpoint';
import type { WeightFiles } from '../huggingface/weight-files.js';
import {
  type MegatronFiles,
  type MegatronOptimizerFiles,
  type MegatronOptimizerState,
  megatronError,
  readCount,
  type StoredArchitecture,
  wholeWeights,
  withoutPadding,
} from './megatron-files.js';
import { type LayersName, nameOfMegatron } from './megatron-names.js';

/**
 * A contiguous part of our tensor: the rows of a stored tensor, or the rows of one layer if the stored tensor
 * contains all layers.
 */
interface StoredRows {
  readonly source: string;
  /** The layer's index in the first dimension, if the stored tensor contains all layers. */
  readonly layer?: number;
  readonly shape: readonly number[];
}

const optimizerState = /^(chained_\d+\.)?optimizer\./;
/**
 * Matches the name of an optimizer state that belongs to a single weight. The names of states in flat buffers
 * differ.
 */
const weightState = /^(?:chained_\d+\.)?optimizer\.state\.(\w+)\.(.+)$/;
const stacked = /^(decoder|encoder)\.layers\.(?!\d+\.)/;
/**
 * Matches the names of SwiGLU's gates (`w`) and values (`v`), which are separate tensors in checkpoints that
 * store each layer separately.
 */
const halves = /^(.*\.mlp\.linear_fc1\.(?:weight|bias))_(w|v)$/;

/**
 * Opens a checkpoint of the format `torch_dist`, regardless of the parallelism with which it was saved.
 *
 * @throws CheckpointError MTL_MEGATRON_CHECKPOINT when the checkpoint has no args, MTL_TORCH_FILE_INVALID
 */
export async function openDistributedMegatron(path: string): Promise<MegatronFiles> {
  const directory = await DistributedTorchDirectory.open(path);
  const common = await commonState(directory);
  return {
    path,
    arguments: common.get('args'),
    iteration: readCount(common.get('iteration')),
    names: [...directory.tensors.keys()].filter((name) => !optimizerState.test(name)),
    weights: (architecture) => distributedWeights(directory, architecture),
    optimizer: optimizerFiles(directory, common),
    close: async () => undefined,
  };
}

function optimizerFiles(
  directory: DistributedTorchDirectory,
  common: ReadonlyMap<unknown, unknown>,
): MegatronOptimizerFiles | undefined {
  const states = new Set([...directory.tensors.keys()].map((name) => weightState.exec(name)?.[1]));
  if (!states.has('exp_avg')) return undefined;
  return {
    steps: countSteps(common.get('optimizer')) ?? readCount(common.get('iteration')),
    has: (state) => states.has(state),
    state: (state, architecture) => distributedWeights(directory, { ...architecture, state }),
  };
}

/** Returns the number of optimizer steps, which the first parameter group contains. */
function countSteps(optimizer: unknown, depth = 0): number | undefined {
  if (depth > 6 || !(optimizer instanceof Map)) return undefined;
  const [group] = [optimizer.get('param_groups')].flat() as unknown[];
  const step: unknown = group instanceof Map ? group.get('step') : undefined;
  if (typeof step === 'number') return readCount(step);
  const found = [...optimizer.values()].map((value) => countSteps(value, depth + 1));
  return found.find((value) => value !== undefined);
}

/**
 * Reads the state that all ranks share: the file `common.pt`, or in later versions an object among the
 * tensors.
 */
async function commonState(directory: DistributedTorchDirectory): Promise<ReadonlyMap<unknown, unknown>> {
  const path = join(directory.path, 'common.pt');
  const name = [...directory.objects.keys()].find((key) => /^common_state(\/|$)/.test(key));
  const isFile = await access(path).then(
    () => true,
    () => false,
  );
  if (!isFile && name === undefined) {
    throw megatronError(directory.path, 'it has neither common.pt nor an object common_state');
  }
  const content = isFile ? await contentOfFile(path) : await directory.readObject(name!);
  // a sharded object is stored as a list of its shards, which has one element here
  const state = Array.isArray(content) ? (content as unknown[])[0] : content;
  if (state instanceof Map) return state as ReadonlyMap<unknown, unknown>;
  throw megatronError(isFile ? path : directory.path, 'its common state is no dictionary');
}

async function contentOfFile(path: string): Promise<unknown> {
  const file = await TorchFile.open(path);
  await file.close();
  return file.content;
}

function distributedWeights(
  directory: DistributedTorchDirectory,
  architecture: StoredArchitecture & { readonly state?: MegatronOptimizerState },
): WeightFiles {
  const { path } = directory;
  const parts = storedParts(directory, architecture);
  const tensors = new Map(
    [...parts].map(([name, list]) => {
      const [{ source, shape }] = list as readonly [StoredRows];
      const { dtype, torchDtype } = directory.tensors.get(source)!;
      if (dtype === undefined) throw megatronError(path, `${source} is ${torchDtype}, which is not read`);
      const whole = list.length === 1 ? shape : [2 * shape[0]!, ...shape.slice(1)];
      return [name, { shape: withoutPadding(name, whole, architecture), dtype }] as const;
    }),
  );
  return wholeWeights({
    path,
    tensors,
    fill: async (name, target) => {
      const list = parts.get(name)!;
      const { shape } = tensors.get(name)!;
      const rows = list.length === 1 ? shape : [shape[0]! / 2, ...shape.slice(1)];
      const slices = rows.map((end) => ({ start: 0, end }));
      const partBytes = target.length / list.length;
      for (const [position, { source, layer }] of list.entries()) {
        await directory.read({
          name: source,
          slices: layer === undefined ? slices : [{ start: layer, end: layer + 1 }, ...slices],
          target: target.subarray(position * partBytes, (position + 1) * partBytes),
        });
      }
    },
  });
}

/**
 * Returns the stored tensors for each of our tensors: one stored tensor, or two if gates and values are
 * separate.
 */
function storedParts(
  directory: DistributedTorchDirectory,
  { layers, state }: { readonly layers: LayersName; readonly state?: MegatronOptimizerState },
): ReadonlyMap<string, readonly StoredRows[]> {
  const parts = new Map<string, StoredRows[]>();
  for (const [source, { shape }] of directory.tensors) {
    const weight = nameWeight(source, state);
    if (weight === undefined) continue;
    const half = halves.exec(weight);
    const name = nameOfMegatron(half?.[1] ?? weight, layers);
    if (name === undefined) continue;
    const place = half?.[2] === 'v' ? 1 : 0;
    const add = (ours: string, part: StoredRows): void => {
      const list = parts.get(ours) ?? [];
      if (list[place] !== undefined) {
        throw megatronError(directory.path, `${list[place].source} and ${source} are both ${ours}`);
      }
      list[place] = part;
      parts.set(ours, list);
    };
    if (shape.includes(0))
      throw megatronError(directory.path, `${source} has the shape [${shape.join(', ')}]`);
    if (!stacked.test(name)) {
      add(name, { source, shape });
      continue;
    }
    const [numLayers = 0, ...rest] = shape;
    // each layer takes up bytes in the file, so the file's size limits the number of layers
    for (let layer = 0; layer < numLayers; layer++) {
      add(
        name.replace(stacked, (start) => `${start}${layer}.`),
        { source, layer, shape: rest },
      );
    }
  }
  return checkedHalves(directory, parts);
}

/**
 * Returns the weight to which a stored tensor belongs. If `state` is given, the tensor must be that optimizer
 * state of the weight. Returns undefined for all other tensors.
 */
function nameWeight(name: string, state: MegatronOptimizerState | undefined): string | undefined {
  if (state === undefined) return optimizerState.test(name) ? undefined : name;
  const [, stored, weight] = weightState.exec(name) ?? [];
  return stored === state ? weight : undefined;
}

/**
 * Returns the stored tensors, after checking that gates and values are both present with equal shapes and
 * dtypes.
 */
function checkedHalves(
  { path, tensors }: DistributedTorchDirectory,
  parts: ReadonlyMap<string, readonly StoredRows[]>,
): ReadonlyMap<string, readonly StoredRows[]> {
  for (const [name, list] of parts) {
    const [gates, values] = list as readonly (StoredRows | undefined)[];
    const describeForm = (part: StoredRows | undefined): string | undefined =>
      part && `${tensors.get(part.source)!.torchDtype} [${part.shape.join(', ')}]`;
    if (gates !== undefined && (list.length === 1 || describeForm(gates) === describeForm(values))) continue;
    const expected = describeForm(gates ?? values);
    throw megatronError(path, `gates and values of ${name} are not both there, in one shape and data type`, {
      expected,
    });
  }
  return parts;
}
