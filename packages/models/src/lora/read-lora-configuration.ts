import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SafetensorsFile } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import { JsonFields } from '../huggingface/json-fields.js';
import { weightsRefused } from '../huggingface/weight-files.js';
import type { LoraConfiguration } from './lora-configuration.js';
import { loraConfigName, loraWeightsName } from './lora-file-names.js';
import { loraWeightTerms } from './lora-weight-terms.js';

/** PEFT's. */
const defaultAlpha = 8;

/** Fields of adapter_config.json that ask for more than is computed here, unless they have these values. */
const neutral: Readonly<Record<string, readonly unknown[]>> = {
  peft_type: ['LORA'],
  bias: ['none'],
  use_dora: [false],
  use_qalora: [false],
  lora_bias: [false],
  modules_to_save: [[]],
  rank_pattern: [{}],
  alpha_pattern: [{}],
  layers_to_transform: [[]],
  layer_replication: [[]],
  exclude_modules: [[]],
  trainable_token_indices: [[]],
  target_parameters: [[]],
  use_bdlora: [false],
  alora_invocation_tokens: [[]],
  arrow_config: [],
  kasa_config: [],
  monteclora_config: [],
  velora_config: [],
  // others change the weights that they belong to
  init_lora_weights: [true, false, 'gaussian', 'orthogonal'],
};

/**
 * What adapters a directory of PEFT holds: adapter_config.json, and of which layers the tensors of
 * adapter_model.safetensors are.
 *
 * @throws CheckpointError MTL_LORA_DIRECTORY for a directory without them, MTL_HUGGING_FACE_CONFIG for a file
 *   that is broken or asks for what is not computed here, MTL_HUGGING_FACE_WEIGHTS for adapters of another
 *   rank; MTL_SAFETENSORS_*
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
  for (const [name, values] of Object.entries(neutral)) {
    const value = fields.values[name];
    if (value === undefined || value === null) continue;
    if (values.some((known) => JSON.stringify(known) === JSON.stringify(value))) continue;
    throw fields.unsupported(name, {
      needs: 'adapters of another kind than LoRA with one rank for all layers',
      expected: [null, ...values].map((known) => JSON.stringify(known)).join(' or '),
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
    targets: await targetsOf(weights, rank),
  };
}

/**
 * The layers whose adapters a file holds, by their names within a block: a list, a pattern and all-linear
 * alike. All of them have to have the rank, before anything of its size is made.
 */
async function targetsOf(path: string, rank: number): Promise<readonly string[]> {
  const file = await SafetensorsFile.open(path);
  try {
    const found = [...file.tensors].flatMap(([name, { shape }]) => {
      const target = /\.(?:layers|h)\.\d+\.(.+)\.lora_A\.weight$/.exec(name)?.[1];
      return target === undefined ? [] : [{ name, target, shape }];
    });
    const other = found.find(({ shape }) => shape[0] !== rank);
    if (other !== undefined) {
      const problem = `${other.name} has the shape [${other.shape.join(', ')}]`;
      throw weightsRefused({ path, terms: loraWeightTerms }, problem, `r rows, ${rank} in ${loraConfigName}`);
    }
    if (found.length > 0) return [...new Set(found.map(({ target }) => target))].sort();
    throw new CheckpointError('MTL_LORA_DIRECTORY', `${path} holds no adapters of a transformer's layers`, {
      expected: 'tensors such as base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight',
      remedy: 'pass the directory of a LoRA that PEFT saved',
      exitCode: 2,
    });
  } finally {
    await file.close();
  }
}
