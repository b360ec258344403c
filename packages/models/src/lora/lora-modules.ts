import type { LoraTarget } from '../blocks/lora-specification.js';
import type { GptModelConfiguration } from '../gpt/gpt-model-configuration.js';
import { gptTypeOf } from '../huggingface/statable-models.js';

/** A linear layer of a block of the transformers library, and which of our layers, or part of one, it is. */
export interface LoraModule {
  /** Its name within the block: `self_attn.q_proj`. */
  readonly path: string;
  readonly target: LoraTarget;
}

const ofGpt2: readonly LoraModule[] = [
  { path: 'attn.c_attn', target: 'qkv' },
  { path: 'attn.c_proj', target: 'projection' },
  { path: 'mlp.c_fc', target: 'fc1' },
  { path: 'mlp.c_proj', target: 'fc2' },
];

const ofAttention: readonly LoraModule[] = [
  { path: 'self_attn.q_proj', target: 'query' },
  { path: 'self_attn.k_proj', target: 'key' },
  { path: 'self_attn.v_proj', target: 'value' },
  { path: 'self_attn.o_proj', target: 'projection' },
];

const ofLlama: readonly LoraModule[] = [
  ...ofAttention,
  { path: 'mlp.gate_proj', target: 'gate' },
  { path: 'mlp.up_proj', target: 'up' },
  { path: 'mlp.down_proj', target: 'fc2' },
];

/** Of blocks that no model there has: the names of a Llama, without a gate. */
const ofUngated: readonly LoraModule[] = [
  ...ofAttention,
  { path: 'mlp.up_proj', target: 'fc1' },
  { path: 'mlp.down_proj', target: 'fc2' },
];

/**
 * The linear layers of a model's blocks that may have adapters, by their names in the transformers library.
 */
export function loraModules(model: GptModelConfiguration): readonly LoraModule[] {
  if (gptTypeOf(model) === 'gpt2') return ofGpt2;
  return model.swiglu === true ? ofLlama : ofUngated;
}
