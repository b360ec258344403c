import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SafetensorsFile } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import { JsonFields } from '../huggingface/json-fields.js';
import { weightsRefused } from '../huggingface/weight-files.js';
import {
  type LoraConfiguration,
  loraConfigName,
  loraWeightsName,
  loraWeightTerms,
  mergeRemedy,
  versionOfParameters,
} from './lora-configuration.js';

/** PEFT's default for `lora_alpha`. */
const defaultAlpha = 8;

/** A field of adapter_config.json that can request an unsupported feature. */
interface UnsupportedField {
  /** The values with which the field does not request a feature. */
  readonly neutral: readonly unknown[];
  readonly needs: string;
  /** True if PEFT cannot merge adapters that have the feature. Default: false. */
  readonly isUnmergeable?: true;
}

const unsupportedFields: Readonly<Record<string, UnsupportedField>> = {
  peft_type: { neutral: ['LORA'], needs: 'adapters of another kind than LoRA' },
  bias: { neutral: ['none'], needs: 'trained biases' },
  use_dora: { neutral: [false], needs: 'DoRA, which scales the adapted weights' },
  use_qalora: { neutral: [false], needs: 'QALoRA' },
  lora_bias: { neutral: [false], needs: 'biases in its adapters' },
  modules_to_save: { neutral: [[]], needs: 'layers that were trained whole' },
  rank_pattern: { neutral: [{}], needs: 'layers of several ranks' },
  alpha_pattern: { neutral: [{}], needs: 'layers of several alphas' },
  layers_to_transform: { neutral: [[]], needs: 'adapters in some of the layers only' },
  layer_replication: { neutral: [[]], needs: 'layers that are repeated', isUnmergeable: true },
  exclude_modules: { neutral: [[]], needs: 'adapters in some of the layers only' },
  trainable_token_indices: { neutral: [[]], needs: 'trained embeddings of single tokens' },
  use_bdlora: { neutral: [false], needs: 'block-diagonal adapters' },
  alora_invocation_tokens: { neutral: [[]], needs: 'adapters that start at a token', isUnmergeable: true },
  arrow_config: { neutral: [], needs: 'a router of adapters', isUnmergeable: true },
  kasa_config: { neutral: [], needs: 'KaSA' },
  monteclora_config: { neutral: [], needs: 'MonteCLoRA' },
  velora_config: { neutral: [], needs: 'VeLoRA' },
  init_lora_weights: {
    neutral: [true, false, 'gaussian', 'orthogonal'],
    needs: 'a start that changes the weights which it adapts',
  },
};

/**
 * Reads the configuration of a PEFT directory from adapter_config.json, and the adapted layers from the
 * tensor names in adapter_model.safetensors.
 *
 * @throws CheckpointError MTL_LORA_DIRECTORY for a directory without these files, MTL_HUGGING_FACE_CONFIG for
 *   a file that is broken or needs an unsupported feature, MTL_HUGGING_FACE_WEIGHTS for adapters whose rank
 *   differs from adapter_config.json; MTL_SAFETENSORS_*
 */
export async function readLoraConfiguration(directory: string): Promise<LoraConfiguration> {
  const fields = await JsonFields.read(join(directory, loraConfigName));
  const weights = join(directory, loraWeightsName);
  if (fields === undefined || !existsSync(weights)) {
    const missing = fields === undefined ? loraConfigName : loraWeightsName;
    const problem = existsSync(directory) ? `holds no ${missing}` : 'not found';
    throw new CheckpointError('MTL_LORA_DIRECTORY', `${directory} ${problem}`, {
      expected: `a directory with ${loraConfigName} and ${loraWeightsName}`,
      remedy: 'save the adapters with save_pretrained of PEFT, or with --save-lora',
      exitCode: 2,
    });
  }
  for (const [name, { neutral, needs, isUnmergeable }] of Object.entries(unsupportedFields)) {
    const value = fields.values[name];
    if (value === undefined || value === null) continue;
    if (neutral.some((known) => JSON.stringify(known) === JSON.stringify(value))) continue;
    throw fields.unsupported(name, {
      needs,
      expected: [null, ...neutral].map((known) => JSON.stringify(known)).join(' or '),
      what: 'the LoRA',
      remedy: isUnmergeable ? 'choose other adapters: these cannot be computed here' : mergeRemedy,
    });
  }
  const rank = fields.required<number>('r', 'a positive integer');
  const dropout = fields.optional<number>('lora_dropout', 'a number', 0);
  if (!(dropout >= 0 && dropout < 1)) throw fields.refuse('lora_dropout', 'at least 0 and below 1');
  return {
    rank,
    alpha: fields.optional<number>('lora_alpha', 'a number', defaultAlpha),
    useRslora: fields.optional<boolean>('use_rslora', 'true or false', false),
    dropout,
    targets: await findTargets({ path: weights, rank, fields }),
  };
}

const adapterName = /\.(?:layers|h)\.\d+\.(.+)\.lora_([AB])\.weight$/;

/**
 * Layers in blocks for which adapters are not supported: routers, and the separate layers of each expert in
 * transformers 4.
 */
const unsupportedTargets = [
  [
    /(?:^|\.)(?:gate|router|shared_expert_gate)$/,
    'of a layer that chooses experts, which is not adapted here',
  ],
  [/\.experts\.\d+\./, 'of one expert, as transformers 4 stored them'],
] as const;

/**
 * Returns the layers that have adapters in a file, by their names within a block. The layers are found in the
 * file, because `target_modules` may be a list, a pattern or `all-linear`. Checks the rank of every adapter
 * before memory for the adapters is allocated.
 */
async function findTargets({ path, rank, fields }: OpenedAdapters): Promise<readonly string[]> {
  const file = await SafetensorsFile.open(path);
  try {
    const found = [...file.tensors].flatMap(([name, { shape }]): FoundFactor[] => {
      const [, target, factor] = adapterName.exec(name) ?? [];
      return target === undefined ? [] : [{ name, target, isDown: factor === 'A', shape }];
    });
    const unknown = [...file.tensors.keys()].find((name) => !adapterName.test(name));
    if (found.length === 0) {
      throw new CheckpointError('MTL_LORA_DIRECTORY', `${path} holds no adapters of a transformer's layers`, {
        expected: 'tensors such as base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight',
        remedy: 'pass the directory of a LoRA that PEFT saved',
        exitCode: 2,
      });
    }
    const refused = unknown ?? found.map(({ name }) => name).find(hasUnsupportedTarget);
    if (refused !== undefined) throw unsupportedAdapter(path, refused);
    const other = found.find(({ target, isDown, shape }) =>
      isDown && isExpertWrapper(target) ? shape[0]! % rank !== 0 : isDown && shape[0] !== rank,
    );
    if (other !== undefined) {
      const problem = `${other.name} has the shape [${other.shape.join(', ')}]`;
      const rows = isExpertWrapper(other.target) ? 'r rows for each expert, r being' : 'r rows,';
      throw weightsRefused({ path, terms: loraWeightTerms }, problem, `${rows} ${rank} in ${loraConfigName}`);
    }
    const wrapped = found.filter(({ target }) => isExpertWrapper(target));
    const layers = found.flatMap(({ target }) => (isExpertWrapper(target) ? [] : [target]));
    return [...new Set([...layers, ...listExpertParameters(wrapped, fields)])].sort();
  } finally {
    await file.close();
  }
}

/** An opened file of adapters, and the fields of the adapter_config.json that belongs to it. */
interface OpenedAdapters {
  readonly path: string;
  readonly rank: number;
  readonly fields: JsonFields;
}

const readTarget = (name: string): string => adapterName.exec(name)?.[1] ?? '';

const hasUnsupportedTarget = (name: string): boolean =>
  unsupportedTargets.some(([pattern]) => pattern.test(readTarget(name)));

function unsupportedAdapter(path: string, name: string): CheckpointError {
  const [, why = "not of a LoRA of a transformer's linear layers"] =
    unsupportedTargets.find(([pattern]) => pattern.test(readTarget(name))) ?? [];
  return new CheckpointError('MTL_HUGGING_FACE_WEIGHTS', `${path}: ${name} is ${why}`, {
    expected: `target_modules in ${loraConfigName} that are linear layers of the transformer's blocks, or target_parameters that belong to experts`,
    remedy: mergeRemedy,
    exitCode: 2,
  });
}

/** One of an adapter's two factors, A or B, in a file. */
interface FoundFactor {
  readonly name: string;
  /** The layer's path within the block. */
  readonly target: string;
  readonly isDown: boolean;
  readonly shape: readonly number[];
}

const wrapper = /^(.+\.experts)(\.base_layer)?$/;

/** Returns true if a module is PEFT's wrapper around a parameter that contains all experts. */
const isExpertWrapper = (target: string): boolean => wrapper.test(target);

/**
 * The parameters that contain the matrices of all experts in a layer. The first parameter has the inner
 * wrapper.
 */
const parameters = ['gate_up_proj', 'down_proj'];

/**
 * Returns the parameters of experts that have adapters. PEFT wraps the experts' module once for each adapted
 * parameter. If the file has two wrappers, both parameters have adapters. If it has a single wrapper,
 * `target_parameters` names the adapted parameter.
 *
 * @param wrapped the factors of the wrappers in a file
 * @throws CheckpointError MTL_HUGGING_FACE_CONFIG if the parameters in adapter_config.json differ from the
 *   file, or if factors of an older version of PEFT may have inputs and outputs swapped
 */
function listExpertParameters(wrapped: readonly FoundFactor[], fields: JsonFields): readonly string[] {
  const [first] = wrapped;
  if (first === undefined) return [];
  checkOrientation(wrapped, fields);
  const names = [fields.values.target_parameters].flat().filter((name) => typeof name === 'string');
  const readLast = (name: string): string => name.slice(name.lastIndexOf('.') + 1);
  const named = parameters.filter((one) => names.some((name) => readLast(name) === one));
  const numWrappers = new Set(wrapped.map(({ target }) => target)).size;
  const [, module] = wrapper.exec(first.target)!;
  if (named.length === numWrappers) return named.map((name) => `${module}.${name}`);
  const expected = `${numWrappers === 1 ? 'one of' : 'both'} ${parameters.join(' and ')}, as the file has factors`;
  throw fields.refuse('target_parameters', expected);
}

/**
 * Rejects factors whose orientation is unknown. PEFT before `versionOfParameters` swapped inputs and outputs.
 * The shapes show if they are swapped, unless a matrix has equally many inputs and outputs.
 */
function checkOrientation(wrapped: readonly FoundFactor[], fields: JsonFields): void {
  const listSizes = (isDown: boolean, dim: number) =>
    new Map(wrapped.filter((one) => one.isDown === isDown).map(({ target, shape }) => [target, shape[dim]]));
  const [inputs, outputs] = [listSizes(true, 1), listSizes(false, 0)];
  const isSquare = [...inputs].some(([target, size]) => outputs.get(target) === size);
  const version = fields.optional<string>('peft_version', 'a string', '0');
  if (!isSquare || !isBefore(version, versionOfParameters)) return;
  throw fields.unsupported('peft_version', {
    needs: 'factors of transposed matrices',
    expected: `${versionOfParameters} or a later version`,
    what: 'the LoRA of experts',
    remedy: mergeRemedy,
  });
}

/** Returns true if the version number `version` is lower than `other`. */
function isBefore(version: string, other: string): boolean {
  const readNumbers = (text: string): number[] => (text.match(/\d+/g) ?? []).slice(0, 3).map(Number);
  const [own, others] = [readNumbers(version), readNumbers(other)];
  const at = others.findIndex((number, index) => number !== (own[index] ?? 0));
  return at >= 0 && (own[at] ?? 0) < others[at]!;
}
