/**
 * Patterns of tensor names in checkpoints of Megatron-LM, and our names: the names of Megatron-Core's own
 * layers. Core with Transformer Engine puts norms into the linear layers after them; from 2019 to 2022 models
 * were nested in `language_model`.
 */
const renamed: ReadonlyArray<readonly [pattern: RegExp, name: string]> = [
  [/^(module\.|model\.)+/, ''],
  [/^language_model\./, ''],
  [/^transformer\./, 'decoder.'],
  [/^word_embeddings_for_head\./, 'output_layer.'],
  // layers of Transformer Engine
  [/\.self_attention\.linear_qkv\.layer_norm_/, '.input_layernorm.'],
  [/\.mlp\.linear_fc1\.layer_norm_/, '.pre_mlp_layernorm.'],
  // names of layers from before Megatron-Core
  [/\.input_norm\./, '.input_layernorm.'],
  [/\.post_attention_(layer)?norm\./, '.pre_mlp_layernorm.'],
  [/\.(self_)?attention\.query_key_value\./, '.self_attention.linear_qkv.'],
  [/\.(self_)?attention\.dense\./, '.self_attention.linear_proj.'],
  [/\.mlp\.dense_h_to_4h\./, '.mlp.linear_fc1.'],
  [/\.mlp\.dense_4h_to_h\./, '.mlp.linear_fc2.'],
  [/^(decoder|encoder)\.final_norm\./, '$1.final_layernorm.'],
  // experts that are held in a nested list
  [/\.mlp\.experts\.experts\./, '.mlp.experts.'],
  [/^lm_head\.layernorm\./, 'lm_head.layer_norm.'],
  [/^lm_head\.bias$/, 'output_layer.bias'],
  [/^lm_head\.norm\./, 'lm_head.layer_norm.'],
];

/**
 * Matches tensors that are skipped: the state of fp8 kernels, and tensors that can be computed from the
 * arguments.
 */
const ignored = /(^|\.)_extra_state(\/|$)|(^|\.)rotary_(pos_)?emb\.inv_freq$|\.attention\.(masked_)?bias$/;

/** Names of the layers in models of Megatron-LM: `decoder` in a GPT, `encoder` in a BERT. */
export type LayersName = 'decoder' | 'encoder';

/**
 * Returns our name for a tensor in a checkpoint; its layer numbers are as in the file, so they may be local
 * to a chunk.
 *
 * @param layers the model's name for its layers: GPTs before Megatron-Core called them `encoder`
 * @returns undefined if the tensor is not a weight
 */
export function nameOfMegatron(name: string, layers: LayersName): string | undefined {
  if (ignored.test(name)) return undefined;
  const current = renamed.reduce((text, [pattern, replacement]) => text.replace(pattern, replacement), name);
  return current.replace(/^(decoder|encoder)\./, `${layers}.`);
}

/** Returns the number of the layer in a name, and the text around it; undefined for other names. */
export function parseLayer(
  name: string,
): { readonly start: string; readonly layer: number; readonly rest: string } | undefined {
  const match = /^((?:decoder|encoder)\.layers\.)(\d{1,9})(\..+)$/.exec(name);
  return match === null ? undefined : { start: match[1]!, layer: Number(match[2]), rest: match[3]! };
}

/** A tensor of the experts of a rank. */
interface ExpertTensor {
  /** Our name of the tensor that has all experts. */
  readonly name: string;
  /** The number of the expert on its rank; undefined for a tensor of all experts. */
  readonly expert: number | undefined;
  /**
   * `rows`: a matrix or vector of outputs by inputs. `view`: the layout of Megatron-LM's grouped experts
   * until 2025, stored as [inputs, experts * outputs] or [experts * inputs, outputs], with values in the
   * order of [experts, inputs, outputs].
   */
  readonly form: 'rows' | 'view';
}

const ofExperts: ReadonlyArray<readonly [pattern: RegExp, read: (match: RegExpExecArray) => ExpertTensor]> = [
  [
    /^(.*\.mlp\.experts\.)local_experts\.(\d{1,6})\.(linear_fc[12]\.(?:weight|bias))$/,
    ([, start, expert, rest]) => ({ name: `${start}${rest}`, expert: Number(expert), form: 'rows' }),
  ],
  [
    /^(.*\.mlp\.experts\.linear_fc[12]\.(?:weight|bias))(\d{1,6})?$/,
    ([, name, expert]) => ({
      name: name!,
      expert: expert === undefined ? undefined : Number(expert),
      form: 'rows',
    }),
  ],
  [
    /^(.*\.mlp\.experts\.)weight([12])$/,
    ([, start, layer]) => ({ name: `${start}linear_fc${layer}.weight`, expert: undefined, form: 'view' }),
  ],
];

/**
 * Returns which experts a tensor holds, by its name (`nameOfMegatron`) in the format `torch`; undefined for a
 * tensor without experts.
 */
export function parseExpertTensor(name: string): ExpertTensor | undefined {
  for (const [pattern, read] of ofExperts) {
    const match = pattern.exec(name);
    if (match !== null) return read(match);
  }
  return undefined;
}

/**
 * Returns the name of our tensor in a checkpoint of the format `torch_dist`. It is Transformer Engine's name,
 * which every Megatron-Core reads, regardless of its layers.
 *
 * @param options.hasExperts whether the layer has experts, whose norm is a separate layer
 */
export function formatMegatronName(name: string, { hasExperts }: { readonly hasExperts: boolean }): string {
  const renamed = name
    .replace(/\.input_layernorm\./, '.self_attention.linear_qkv.layer_norm_')
    .replace(/\.mlp\.experts\./, '.mlp.experts.experts.');
  return hasExperts ? renamed : renamed.replace(/\.pre_mlp_layernorm\./, '.mlp.linear_fc1.layer_norm_');
}
