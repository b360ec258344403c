import type { GptModelConfiguration } from '@mtl/models';
import type { GptTypeName } from './model-types.js';
import {
  type HuggingFaceTensor,
  sameLayout,
  sideBySide,
  stacked,
  type WeightMapping,
} from './weight-mapping.js';

/** How files name the experts of a layer. */
export interface ExpertNames {
  /** What the feed-forward layer is called. */
  readonly block: string;
  readonly gate: string;
  readonly up: string;
  readonly down: string;
  /** Whether all experts of a layer are one tensor, as transformers 5 has them in memory. */
  readonly isFused: boolean;
}

const qwenNames = { block: 'mlp', gate: 'gate_proj', up: 'up_proj', down: 'down_proj' } as const;
const mixtralNames = { block: 'block_sparse_moe', gate: 'w1', up: 'w3', down: 'w2' } as const;

const fused = /\.experts\.(gate_up|down)_proj$/;

/**
 * The names of experts of a model type.
 *
 * @param tensors those of the files. Default: each expert has its own
 */
export const expertNamesOf = (modelType: GptTypeName, tensors: Iterable<string> = []): ExpertNames => ({
  ...(modelType === 'mixtral' ? mixtralNames : qwenNames),
  isFused: [...tensors].some((name) => fused.test(name)),
});

/**
 * The name in files of today for one of transformers 5 in memory, which calls the layers of a Mixtral `mlp`.
 */
export const canonicalOfMixtral = (name: string): string =>
  name.replace(/^(layers\.\d+\.)mlp\./, `$1${mixtralNames.block}.`);

/**
 * The name map of a layer with experts: router, experts, shared experts. Gates and values of experts are
 * stored one after another, as ours are, whether each expert has tensors of its own or all have one.
 *
 * @param options.ours prefix of our names, such as `decoder.layers.0.mlp.`
 * @param options.theirs prefix of the layer in files, such as `layers.0.`
 */
export function expertWeightMappings(
  model: GptModelConfiguration,
  options: { readonly ours: string; readonly theirs: string; readonly names: ExpertNames },
): WeightMapping[] {
  const { ours, names } = options;
  const { hiddenSize: h, numExperts = 1, moeFfnHiddenSize: f = model.ffnHiddenSize } = model;
  const theirs = `${options.theirs}${names.block}.`;
  const experts = Array.from({ length: numExperts }, (_, expert) => `${theirs}experts.${expert}.`);
  const [up, down] = [`${ours}experts.linear_fc1.weight`, `${ours}experts.linear_fc2.weight`];
  const [upShape, downShape] = [
    [numExperts, 2, f, h],
    [numExperts, h, f],
  ];
  const weight = (name: string, shape: readonly number[]): HuggingFaceTensor => ({
    name: `${name}.weight`,
    shape,
  });
  const apart = (): WeightMapping[] => [
    stacked(
      up,
      experts.map((expert) => [names.gate, names.up].map((name) => weight(`${expert}${name}`, [f, h]))),
      upShape,
    ),
    stacked(
      down,
      experts.map((expert) => [weight(`${expert}${names.down}`, [h, f])]),
      downShape,
    ),
  ];
  const together = (): WeightMapping[] => [
    sameLayout(up, { name: `${theirs}experts.gate_up_proj`, shape: [numExperts, 2 * f, h] }, upShape),
    sameLayout(down, { name: `${theirs}experts.down_proj`, shape: downShape }),
  ];
  return [
    sameLayout(`${ours}router.weight`, weight(`${theirs}gate`, [numExperts, h])),
    ...(names.isFused ? together() : apart()),
    ...sharedExpertMappings(model, { ours, theirs }),
  ];
}

/** Those of a Qwen2-MoE. */
function sharedExpertMappings(
  { hiddenSize: h, moeSharedExpertIntermediateSize: f, moeSharedExpertGate: hasGate }: GptModelConfiguration,
  { ours, theirs }: { readonly ours: string; readonly theirs: string },
): WeightMapping[] {
  if (f === undefined) return [];
  const source = (name: string, shape: readonly number[]): HuggingFaceTensor => ({
    name: `${theirs}${name}.weight`,
    shape,
  });
  const shared = `${ours}shared_experts.`;
  return [
    sideBySide(
      `${shared}linear_fc1.weight`,
      [source('shared_expert.gate_proj', [f, h]), source('shared_expert.up_proj', [f, h])],
      { numGroups: 1, globalShape: [2, f, h] },
    ),
    sameLayout(`${shared}linear_fc2.weight`, source('shared_expert.down_proj', [h, f])),
    ...(hasGate === true ? [sameLayout(`${shared}gate_weight`, source('shared_expert_gate', [1, h]))] : []),
  ];
}
