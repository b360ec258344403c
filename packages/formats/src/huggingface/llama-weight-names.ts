import { type GptModelConfiguration, gptBlock, hasExperts, paddedVocabularySize } from '@mtl/models';
import { headSizeOf } from '@mtl/models/internal';

import { type ExpertNames, expertWeightMappings } from './expert-weight-mappings.js';
import type { WeightNames } from './mapped-weights.js';
import { paddedTable, sameLayout, sideBySide, type WeightMapping } from './weight-mapping.js';

/** Of the names of LlamaModel, and of the models after it, in files of LlamaForCausalLM. */
export const llamaPrefix = 'model.';

type Kind = 'weight' | 'bias';

function layerMappings(
  layer: number,
  model: GptModelConfiguration,
  experts: ExpertNames | undefined,
): WeightMapping[] {
  const { hiddenSize: h, ffnHiddenSize: f, numAttentionHeads: heads } = model;
  const { attention } = gptBlock(model);
  const { bias, qkvBias = bias, numGroups = heads } = attention;
  const size = headSizeOf(model);
  const ours = `decoder.layers.${layer}.`;
  const theirs = `layers.${layer}.`;
  const isWhole = attention.queryKeyNorm?.wholeWidth === true;
  const normSize = isWhole ? { q: heads * size, k: numGroups * size } : { q: size, k: size };
  const kinds = (hasBias: boolean): Kind[] => (hasBias ? ['weight', 'bias'] : ['weight']);
  const vector = (name: string, source: string, length: number): WeightMapping =>
    sameLayout(`${ours}${name}`, { name: `${theirs}${source}`, shape: [length] });
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
    vector('input_layernorm.weight', 'input_layernorm.weight', h),
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
    vector('pre_mlp_layernorm.weight', 'post_attention_layernorm.weight', h),
    ...(experts !== undefined && hasExperts(model, layer)
      ? expertWeightMappings(model, { ours: `${ours}mlp.`, theirs, names: experts })
      : feedForward()),
  ];
}

/**
 * The name map of transformers' Llama, Mistral, Qwen2, Qwen3 and their mixtures of experts, names without the
 * prefix `model.` (`lm_head.weight` has none there). Rows of queries, keys and values are apart there, as are
 * gates and values of SwiGLU.
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
    sameLayout('decoder.final_layernorm.weight', { name: 'norm.weight', shape: [hiddenSize] }),
    ...(model.tieEmbeddings ? [] : [table('output_layer.weight', 'lm_head.weight')]),
  ];
}

// buffers of older versions, and the tied head
const ignored = /^layers\.\d+\.self_attn\.rotary_emb\.inv_freq$|^lm_head\.weight$/;

/**
 * How files of a Llama, or of a model after it, are named.
 *
 * @param options.experts how experts are, of a model that has some
 * @param options.canonical the name of today for one that is not written
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
