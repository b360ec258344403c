import { type GptModelConfiguration, hasExperts, type LoraTarget } from '@mtl/models';

import { gptTypeOf } from '../huggingface/statable-models.js';

/** A linear layer of a block of the transformers library, and which of our layers, or part of one, it is. */
export interface LoraModule {
  /** Its name within the block: `self_attn.q_proj`. */
  readonly path: string;
  readonly target: LoraTarget;
  /**
   * Whether it is no layer there but a parameter, which has the matrices of all experts: PEFT names it among
   * its `target_parameters`. Absent: it is a layer.
   */
  readonly isParameter?: true;
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

const ofGated: readonly LoraModule[] = [
  { path: 'mlp.gate_proj', target: 'gate' },
  { path: 'mlp.up_proj', target: 'up' },
  { path: 'mlp.down_proj', target: 'fc2' },
];

/** Of blocks that no model there has: the names of a Llama, without a gate. */
const ofUngated: readonly LoraModule[] = [
  { path: 'mlp.up_proj', target: 'fc1' },
  { path: 'mlp.down_proj', target: 'fc2' },
];

/** Of routed experts, in memory of version 5. */
const expertsOf = (isGated: boolean): readonly LoraModule[] => [
  { path: `mlp.experts.${isGated ? 'gate_up_proj' : 'up_proj'}`, target: 'expertsFc1', isParameter: true },
  { path: 'mlp.experts.down_proj', target: 'expertsFc2', isParameter: true },
];

const sharedOf = (isGated: boolean): readonly LoraModule[] => [
  ...(isGated
    ? ([
        { path: 'mlp.shared_expert.gate_proj', target: 'sharedGate' },
        { path: 'mlp.shared_expert.up_proj', target: 'sharedUp' },
      ] as const)
    : ([{ path: 'mlp.shared_expert.up_proj', target: 'sharedFc1' }] as const)),
  { path: 'mlp.shared_expert.down_proj', target: 'sharedFc2' },
];

/**
 * The linear layers of a model's blocks that may have adapters, by their names in the transformers library.
 */
export function loraModules(model: GptModelConfiguration): readonly LoraModule[] {
  if (gptTypeOf(model) === 'gpt2') return ofGpt2;
  const isGated = model.swiglu === true || model.quickGeglu === true;
  const layers = Array.from({ length: model.numLayers }, (_, layer) => hasExperts(model, layer));
  const hasShared = model.moeSharedExpertIntermediateSize !== undefined;
  return [
    ...ofAttention,
    ...(layers.includes(false) ? (isGated ? ofGated : ofUngated) : []),
    ...(layers.includes(true) ? [...expertsOf(isGated), ...(hasShared ? sharedOf(isGated) : [])] : []),
  ];
}
