import { ConfigurationError, nearestName } from '@mtl/errors';
import { type GptModelConfiguration, hasExperts, type LoraSpecification, type LoraTarget } from '@mtl/models';
import { checkAdapterDropout } from '@mtl/models/internal';
import { chooseGptType } from '../huggingface/statable-models.js';
import type { LoraConfiguration } from './lora-configuration.js';

/**
 * A linear layer in a block of the transformers library. `target` and the following fields describe the
 * corresponding outputs of a layer in our block.
 */
interface LoraModule {
  /** The layer's path within the block, for example `self_attn.q_proj`. */
  readonly path: string;
  readonly target: LoraTarget;
  /**
   * True if the module is not a layer in transformers, but a parameter that contains the matrices of all
   * experts. PEFT lists the names of such parameters in `target_parameters`. Absent if the module is a layer.
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

/**
 * The modules of MLPs without a gate, with Llama's names. No transformers model has such an MLP in blocks of
 * this kind.
 */
const ofUngated: readonly LoraModule[] = [
  { path: 'mlp.up_proj', target: 'fc1' },
  { path: 'mlp.down_proj', target: 'fc2' },
];

/** Returns the modules of routed experts. The names are the names that transformers 5 uses in memory. */
const listExpertModules = (isGated: boolean): readonly LoraModule[] => [
  { path: `mlp.experts.${isGated ? 'gate_up_proj' : 'up_proj'}`, target: 'expertsFc1', isParameter: true },
  { path: 'mlp.experts.down_proj', target: 'expertsFc2', isParameter: true },
];

const listSharedModules = (isGated: boolean): readonly LoraModule[] => [
  ...(isGated
    ? ([
        { path: 'mlp.shared_expert.gate_proj', target: 'sharedGate' },
        { path: 'mlp.shared_expert.up_proj', target: 'sharedUp' },
      ] as const)
    : ([{ path: 'mlp.shared_expert.up_proj', target: 'sharedFc1' }] as const)),
  { path: 'mlp.shared_expert.down_proj', target: 'sharedFc2' },
];

/**
 * Returns which linear layers of a model's blocks may have adapters, by their names in the transformers
 * library.
 */
export function loraModules(model: GptModelConfiguration): readonly LoraModule[] {
  if (chooseGptType(model) === 'gpt2') return ofGpt2;
  const isGated = model.swiglu === true || model.quickGeglu === true;
  const layers = Array.from({ length: model.numLayers }, (_, layer) => hasExperts(model, layer));
  const hasShared = model.moeSharedExpertIntermediateSize !== undefined;
  return [
    ...ofAttention,
    ...(layers.includes(false) ? (isGated ? ofGated : ofUngated) : []),
    ...(layers.includes(true)
      ? [...listExpertModules(isGated), ...(hasShared ? listSharedModules(isGated) : [])]
      : []),
  ];
}

/** The target name that selects all linear layers in blocks, as in PEFT. */
const allLinear = 'all-linear';

/**
 * Returns the adapters that a configuration requests for a model. A target is the end of a layer's name, as
 * in PEFT: `c_proj` matches layers in attention and in the MLP, `attn.c_proj` only the layer in attention.
 *
 * @throws ConfigurationError MTL_LORA_TARGETS for a name that no layer has (the message suggests the nearest
 *   name), and for adapters of experts with dropout
 */
export function specifyLora(
  { rank, alpha, useRslora, dropout, targets }: LoraConfiguration,
  model: GptModelConfiguration,
): LoraSpecification {
  const modules = loraModules(model);
  const wanted = new Set(targets.flatMap((name) => findModules(name, modules)));
  const specification = {
    rank,
    scale: alpha / (useRslora ? Math.sqrt(rank) : rank),
    dropout,
    // the targets are in the order of the model's layers, regardless of the order that the user has given
    targets: modules.filter((module) => wanted.has(module)).map(({ target }) => target),
  };
  checkAdapterDropout(specification);
  return specification;
}

function findModules(name: string, modules: readonly LoraModule[]): readonly LoraModule[] {
  if (name === allLinear) return modules;
  const found = modules.filter(({ path }) => path === name || path.endsWith(`.${name}`));
  if (found.length > 0) return found;
  const known = [...new Set(modules.map(({ path }) => path.slice(path.lastIndexOf('.') + 1)))];
  const nearest = nearestName(name, [...known, ...modules.map(({ path }) => path), allLinear]);
  throw new ConfigurationError('MTL_LORA_TARGETS', `no linear layer of the model is called ${name}`, {
    expected: `${known.join(', ')}, or ${allLinear}`,
    remedy: nearest === undefined ? `pass ${allLinear} for all layers` : `pass ${nearest}`,
    details: { name, known },
  });
}
