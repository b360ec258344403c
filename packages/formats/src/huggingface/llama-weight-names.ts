import {
  computeHeadSize,
  type GptModelConfiguration,
  gptBlock,
  hasExperts,
  hasNormBiases,
  paddedVocabularySize,
} from '@mtl/models';
import type { WeightNames } from './mapped-weights.js';
import type { GptTypeName } from './model-types.js';
import {
  type HuggingFaceTensor,
  paddedTable,
  sameLayout,
  sideBySide,
  stacked,
  type WeightMapping,
} from './weight-mapping.js';

/**
 * The prefix that the names of the base model (LlamaModel or a derived class) have in files of models with a
 * head (such as LlamaForCausalLM).
 */
export const llamaPrefix = 'model.';

type Kind = 'weight' | 'bias';

/** Returns which tensors a norm of hidden states has: a weight, and in some models a bias. */
const kindsOfNorm = (model: GptModelConfiguration): readonly Kind[] =>
  hasNormBiases(model) ? ['weight', 'bias'] : ['weight'];

function layerMappings(
  layer: number,
  model: GptModelConfiguration,
  experts: ExpertNames | undefined,
): WeightMapping[] {
  const { hiddenSize: h, ffnHiddenSize: f, numAttentionHeads: heads } = model;
  const { attention } = gptBlock(model);
  const { bias, qkvBias = bias, numGroups = heads } = attention;
  const size = computeHeadSize(model);
  const ours = `decoder.layers.${layer}.`;
  const theirs = `layers.${layer}.`;
  const isWhole = attention.queryKeyNorm?.wholeWidth === true;
  const normSize = isWhole ? { q: heads * size, k: numGroups * size } : { q: size, k: size };
  const kinds = (hasBias: boolean): Kind[] => (hasBias ? ['weight', 'bias'] : ['weight']);
  const vector = (name: string, source: string, length: number): WeightMapping =>
    sameLayout(`${ours}${name}`, { name: `${theirs}${source}`, shape: [length] });
  const norm = (name: string, source: string): WeightMapping[] =>
    kindsOfNorm(model).map((kind) => vector(`${name}.${kind}`, `${source}.${kind}`, h));
  const dense = (name: string, source: string, [outputs, inputs]: readonly [number, number]) =>
    kinds(bias).map((kind) =>
      sameLayout(`${ours}${name}.${kind}`, {
        name: `${theirs}${source}.${kind}`,
        shape: kind === 'weight' ? [outputs, inputs] : [outputs],
      }),
    );
  const inputs = (kind: Kind): number[] => (kind === 'weight' ? [h] : []);
  const source = (name: string, rows: number, kind: Kind) => ({
    name: `${theirs}${name}.${kind}`,
    shape: [rows, ...inputs(kind)],
  });
  const feedForward = (): WeightMapping[] => [
    ...kinds(bias).map((kind) =>
      sideBySide(
        `${ours}mlp.linear_fc1.${kind}`,
        [source('mlp.gate_proj', f, kind), source('mlp.up_proj', f, kind)],
        { numGroups: 1, globalShape: [2, f, ...inputs(kind)] },
      ),
    ),
    ...dense('mlp.linear_fc2', 'mlp.down_proj', [h, f]),
  ];
  return [
    ...norm('input_layernorm', 'input_layernorm'),
    ...kinds(qkvBias).map((kind) =>
      sideBySide(
        `${ours}self_attention.linear_qkv.${kind}`,
        [
          source('self_attn.q_proj', heads * size, kind),
          source('self_attn.k_proj', numGroups * size, kind),
          source('self_attn.v_proj', numGroups * size, kind),
        ],
        { numGroups, globalShape: [numGroups, heads / numGroups + 2, size, ...inputs(kind)] },
      ),
    ),
    ...(attention.queryKeyNorm === undefined
      ? []
      : (['q', 'k'] as const).map((of) =>
          vector(`self_attention.${of}_layernorm.weight`, `self_attn.${of}_norm.weight`, normSize[of]),
        )),
    ...dense('self_attention.linear_proj', 'self_attn.o_proj', [h, heads * size]),
    ...norm('pre_mlp_layernorm', 'post_attention_layernorm'),
    ...(experts !== undefined && hasExperts(model, layer)
      ? expertWeightMappings(model, { ours: `${ours}mlp.`, theirs, names: experts })
      : feedForward()),
  ];
}

/**
 * Returns the mappings for the transformers library's Llama, Mistral, Qwen2, Qwen3 and their mixtures of
 * experts. The names in the mappings have no prefix `model.`, which files add to all names except
 * `lm_head.weight`. Files store query, key and value as separate tensors, and also SwiGLU's gate and value.
 */
function llamaWeightMappings(
  model: GptModelConfiguration,
  experts: ExpertNames | undefined,
): WeightMapping[] {
  const { hiddenSize, vocabularySize, numLayers } = model;
  const table = (name: string, source: string): WeightMapping =>
    paddedTable(name, { name: source, shape: [vocabularySize, hiddenSize] }, paddedVocabularySize(model));
  return [
    table('embedding.word_embeddings.weight', 'embed_tokens.weight'),
    ...Array.from({ length: numLayers }, (_, layer) => layerMappings(layer, model, experts)).flat(),
    ...kindsOfNorm(model).map((kind) =>
      sameLayout(`decoder.final_layernorm.${kind}`, { name: `norm.${kind}`, shape: [hiddenSize] }),
    ),
    ...(model.tieEmbeddings ? [] : [table('output_layer.weight', 'lm_head.weight')]),
  ];
}

// matches the tied head, and buffers that older versions stored
const ignored = /^layers\.\d+\.self_attn\.rotary_emb\.inv_freq$|^lm_head\.weight$/;

/**
 * Returns the weight names in files of a Llama or a derived model.
 *
 * @param options.experts how files store experts, for a model that has experts
 * @param options.canonical returns a tensor's current name, given a name that transformers no longer writes
 */
export function llamaWeightNames(
  model: GptModelConfiguration,
  {
    experts,
    canonical,
  }: { readonly experts?: ExpertNames; readonly canonical?: (name: string) => string } = {},
): WeightNames {
  return {
    mappings: llamaWeightMappings(model, experts),
    prefix: llamaPrefix,
    isIgnored: (name) => ignored.test(name),
    ...(canonical !== undefined && { canonical }),
    ...(model.tieEmbeddings && { copies: { 'lm_head.weight': 'embed_tokens.weight' } }),
  };
}

/** The names that a layer's experts have in files. */
interface ExpertNames {
  /** Name of the feed-forward layer. */
  readonly block: string;
  readonly gate: string;
  readonly up: string;
  readonly down: string;
  /**
   * True if a single tensor stores all experts of a layer, which is how transformers 5 keeps them in memory.
   */
  readonly isFused: boolean;
}

const qwenNames = { block: 'mlp', gate: 'gate_proj', up: 'up_proj', down: 'down_proj' } as const;
const mixtralNames = { block: 'block_sparse_moe', gate: 'w1', up: 'w3', down: 'w2' } as const;

const fused = /\.experts\.(gate_up|down)_proj$/;

/**
 * Returns the names that a model type's experts have in files.
 *
 * @param tensors the tensor names in the files. Default: separate tensors for each expert
 */
export const chooseExpertNames = (modelType: GptTypeName, tensors: Iterable<string> = []): ExpertNames => ({
  ...(modelType === 'mixtral' ? mixtralNames : qwenNames),
  isFused: [...tensors].some((name) => fused.test(name)),
});

/**
 * Returns a tensor's name in current files, given a name that transformers 5 uses in memory, where a
 * Mixtral's MLPs are called `mlp`.
 */
export const canonicalOfMixtral = (name: string): string =>
  name.replace(/^(layers\.\d+\.)mlp\./, `$1${mixtralNames.block}.`);

/**
 * Returns the mappings for a layer with experts: router, experts and shared experts. As in this project's
 * models, an expert's gates precede its values. The experts are separate tensors, or one tensor for all
 * experts.
 *
 * @param options.ours the prefix of our names, such as `decoder.layers.0.mlp.`
 * @param options.theirs the layer's prefix in files, such as `layers.0.`
 */
function expertWeightMappings(
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

/** Maps the shared experts of a Qwen2-MoE. */
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
