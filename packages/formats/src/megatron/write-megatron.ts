import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  checkpointName,
  type DistributedTensorSource,
  encodeTorchObject,
  type LogicalTensor,
  PickledObject,
  PickledTuple,
  type PickleValue,
  type TensorSource,
  trackerName,
  writeDistributedTorchDirectory,
} from '@mtl/checkpoint';
import {
  type BertModelConfiguration,
  computeHeadSize,
  type GptModelConfiguration,
  hasExperts,
  paddedVocabularySize,
} from '@mtl/models';
import { writeConfigFields } from '../huggingface/config-fields.js';
import type { WritableDtype } from '../huggingface/float-bytes.js';
import { mappedWeightSources } from '../huggingface/mapped-weight-sources.js';
import { publishDirectory } from '../huggingface/publish-directory.js';
import { layersWithExperts } from './megatron-expert-fields.js';
import { type MegatronModelKind, megatronModelTypes, unwrittenProperties } from './megatron-fields.js';
import { megatronError } from './megatron-files.js';
import { formatMegatronName, parseLayer } from './megatron-names.js';
import { megatronWeightNames } from './megatron-weight-names.js';

interface WriteMegatronOptions {
  /** The directory to write, which must be missing or empty. It is written atomically, with one rename. */
  readonly directory: string;
  readonly kind: MegatronModelKind;
  readonly model: GptModelConfiguration | BertModelConfiguration;
  /** All of the model's tensors, each complete. */
  readonly tensors: readonly LogicalTensor[];
  /**
   * The number of optimizer steps. If it is 0, the checkpoint is named `release`, which is Megatron-LM's name
   * for weights without an iteration.
   */
  readonly iteration: number;
  readonly consumedSamples: number;
  /** Dtype of the stored weights. Default: F32. */
  readonly dtype?: WritableDtype | undefined;
}

/**
 * Saves a model's weights as a Megatron-LM checkpoint in the format `torch_dist`. Megatron-LM loads it in any
 * layout with `--no-load-optim --no-load-rng`. The directory is written under a temporary name and renamed,
 * so a failed save leaves no files. Needs memory for the largest tensor.
 *
 * @returns the path of the checkpoint in the directory
 * @throws CheckpointError MTL_MEGATRON_CHECKPOINT for a target that contains files, or a model that
 *   Megatron-LM does not support; MTL_NOT_FINITE, MTL_CHECKPOINT_*
 */
export async function writeMegatron(options: WriteMegatronOptions): Promise<string> {
  const { iteration } = options;
  checkExpressible(options);
  const name = iteration === 0 ? 'release' : checkpointName(iteration);
  const codes = { exists: 'MTL_MEGATRON_CHECKPOINT', failed: 'MTL_CHECKPOINT_IO' } as const;
  await publishDirectory({ directory: options.directory, ...codes }, async (unfinished) => {
    const path = join(unfinished, name);
    await mkdir(path);
    await writeDistributedTorchDirectory({ directory: path, tensors: tensorSources(options) });
    await writeFile(join(path, 'common.pt'), Buffer.concat(encodeTorchObject(commonState(options))));
    // written last, because Megatron-LM considers a checkpoint without this file unfinished
    await writeFile(join(path, 'metadata.json'), JSON.stringify(format));
    const latest = iteration === 0 ? name : `${iteration}`;
    await writeFile(join(unfinished, trackerName), latest);
  });
  return join(options.directory, name);
}

const format = {
  sharded_backend: 'torch_dist',
  sharded_backend_version: 1,
  common_backend: 'torch',
  common_backend_version: 1,
};

/** Rejects a model if one of its property values is impossible in Megatron-LM's models of this kind. */
function checkExpressible({ kind, model, directory }: WriteMegatronOptions): void {
  const { fixed } = megatronModelTypes[kind];
  const absent = Object.fromEntries(unwrittenProperties.map((key) => [key, undefined]));
  for (const [key, value] of Object.entries({ ...absent, ...fixed })) {
    const own = (model as unknown as Readonly<Record<string, unknown>>)[key];
    if (own === value || (value === undefined && own === false)) continue;
    throw megatronError(
      directory,
      `the model has ${key} ${String(own)}, which Megatron-LM does not compute`,
      {
        expected: value === undefined ? `no ${key}` : `${key} ${String(value)}`,
        remedy: 'write it for the transformers library, with --save-hf',
      },
    );
  }
}

/**
 * Returns true if each layer parameter is stored as a single tensor for all layers. This requires that all
 * layers have the same parameters.
 */
const isStacked = (model: WriteMegatronOptions['model']): boolean =>
  !('numExperts' in model) || model.numExperts === undefined || layersWithExperts(model) === 1;

/**
 * Returns the tensors to write. Each layer parameter becomes a single tensor for all layers, with one chunk
 * per layer. If only some layers have experts, each layer instead has separate tensors.
 */
function tensorSources({
  kind,
  model,
  tensors,
  dtype = 'F32',
}: WriteMegatronOptions): DistributedTensorSource[] {
  const names = megatronWeightNames({ kind, model, vocabularySize: paddedVocabularySize(model) });
  const sources = mappedWeightSources({ names, tensors, dtype, fileName: (name) => name });
  const stacks = isStacked(model);
  const parts = new Map<string, TensorSource[]>();
  for (const source of sources) {
    const layer = parseLayer(source.name);
    const isOne = stacks && layer !== undefined;
    const name = formatMegatronName(isOne ? `${layer.start}${layer.rest.slice(1)}` : source.name, {
      hasExperts: layer !== undefined && 'numExperts' in model && hasExperts(model, layer.layer),
    });
    parts.set(name, [...(parts.get(name) ?? []), source]);
  }
  return [...parts].map(([name, list]) => {
    const [{ shape, name: first, dtype: stored }] = list as [TensorSource];
    const isLayered = stacks && parseLayer(first) !== undefined;
    return {
      name,
      dtype: stored,
      shape: isLayered ? [list.length, ...shape] : shape,
      chunks: list.map(({ read, check }, layer) => ({
        offsets: [...(isLayered ? [layer] : []), ...shape.map(() => 0)],
        sizes: [...(isLayered ? [1] : []), ...shape],
        check,
        read,
      })),
    };
  });
}

/** Returns the contents of `common.pt`, the state that all ranks share. */
function commonState(options: WriteMegatronOptions): PickleValue {
  const { kind, model, iteration, consumedSamples } = options;
  const { fields, alwaysStated } = megatronModelTypes[kind];
  const paddedSize = paddedVocabularySize(model);
  const written: Readonly<Record<string, unknown>> = {
    ...writeConfigFields(model, fields),
    ...alwaysStated,
    kv_channels: computeHeadSize(model),
    padded_vocab_size: paddedSize,
    seq_length: model.maxPositionEmbeddings,
    tensor_model_parallel_size: 1,
    pipeline_model_parallel_size: 1,
    iteration,
    consumed_train_samples: consumedSamples,
    consumed_valid_samples: 0,
  };
  const args = new PickledObject('argparse.Namespace', []);
  const values = Object.entries(written).map(([name, value]): [string, PickleValue] => [
    name,
    // in Megatron-LM, the window is a tuple, but the list of layers with experts is a list
    Array.isArray(value) && name === 'window_size'
      ? new PickledTuple(value as number[])
      : (value as PickleValue),
  ]);
  args.state = new Map(values);
  return new Map<PickleValue, PickleValue>([
    ['args', args],
    ['checkpoint_version', 3],
    ['iteration', iteration],
    ['content_metadata', new Map([['singleton_local_shards', false]])],
  ]);
}
