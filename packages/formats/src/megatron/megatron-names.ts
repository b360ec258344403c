/**
 * Replaces Megatron-LM's names of tensors, in order, by our names. Our names are the names of Megatron-Core
 * without Transformer Engine. (Transformer Engine moves norms into the next linear layers.) From 2019 to
 * 2022, models were nested in `language_model`.
 */
const renamed: ReadonlyArray<readonly [pattern: RegExp, name: string]> = [
  [/^(module\.|model\.)+/, ''],
  [/^language_model\./, ''],
  [/^transformer\./, 'decoder.'],
  [/^word_embeddings_for_head\./, 'output_layer.'],
  // layers of Transformer Engine that contain a norm
  [/\.self_attention\.linear_qkv\.layer_norm_/, '.input_layernorm.'],
  [/\.mlp\.linear_fc1\.layer_norm_/, '.pre_mlp_layernorm.'],
  // names of layers before Megatron-Core
  [/\.input_norm\./, '.input_layernorm.'],
  [/\.post_attention_(layer)?norm\./, '.pre_mlp_layernorm.'],
  [/\.(self_)?attention\.query_key_value\./, '.self_attention.linear_qkv.'],
  [/\.(self_)?attention\.dense\./, '.self_attention.linear_proj.'],
  [/\.mlp\.dense_h_to_4h\./, '.mlp.linear_fc1.'],
  [/\.mlp\.dense_4h_to_h\./, '.mlp.linear_fc2.'],
  [/^(decoder|encoder)\.final_norm\./, '$1.final_layernorm.'],
  // experts in a nested module
  [/\.mlp\.experts\.experts\./, '.mlp.experts.'],
  [/^lm_head\.layernorm\./, 'lm_head.layer_norm.'],
  [/^lm_head\.bias$/, 'output_layer.bias'],
  [/^lm_head\.norm\./, 'lm_head.layer_norm.'],
];

/** Matches ignored tensors: the state of fp8 kernels, and tensors that follow from the args. */
const ignored = /(^|\.)_extra_state(\/|$)|(^|\.)rotary_(pos_)?emb\.inv_freq$|\.attention\.(masked_)?bias$/;

/** The names of the list of layers in Megatron-LM's models: `decoder` in a GPT, `encoder` in a BERT. */
export type LayersName = 'decoder' | 'encoder';

/**
 * Returns our name for a tensor in a checkpoint. The layer number is as in the file, so it may be local to a
 * model chunk.
 *
 * @param layers the model's name for its list of layers, which is `encoder` in GPTs before Megatron-Core
 * @returns undefined if the tensor is not a weight
 */
export function nameOfMegatron(name: string, layers: LayersName): string | undefined {
  if (ignored.test(name)) return undefined;
  const current = renamed.reduce((text, [pattern, replacement]) => text.replace(pattern, replacement), name);
  return current.replace(/^(decoder|encoder)\./, `${layers}.`);
}

/** Splits a name at the number of its layer; undefined for a name without a layer. */
export function parseLayer(
  name: string,
): { readonly start: string; readonly layer: number; readonly rest: string } | undefined {
  const match = /^((?:decoder|encoder)\.layers\.)(\d{1,9})(\..+)$/.exec(name);
  return match === null ? undefined : { start: match[1]!, layer: Number(match[2]), rest: match[3]! };
}

/** A stored tensor of one expert, or of all experts of a rank. */
interface ExpertTensor {
  /** Our name of the tensor with all experts. */
  readonly name: string;
  /** The index of the expert on its rank; undefined for a tensor with all experts. */
  readonly expert: number | undefined;
  /**
   * The layout. `rows`: matrices or vectors of outputs by inputs. `view`: Megatron-LM's grouped experts until
   * 2025, with the shape [inputs, experts * outputs] or [experts * inputs, outputs] and values in the order
   * [experts, inputs, outputs].
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
 * Parses the name of a tensor of experts in a checkpoint of the format `torch`, as `nameOfMegatron` returns
 * it. Returns undefined for other tensors.
 */
export function parseExpertTensor(name: string): ExpertTensor | undefined {
  for (const [pattern, read] of ofExperts) {
    const match = pattern.exec(name);
    if (match !== null) return read(match);
  }
  return undefined;
}

/**
 * Returns the name of our tensor in a checkpoint of the format `torch_dist`. This is Transformer Engine's
 * name, which every Megatron-Core can read, also without Transformer Engine.
 *
 * @param options.hasExperts true if the layer has experts. Its norm is then a separate layer
 */
export function formatMegatronName(name: string, { hasExperts }: { readonly hasExperts: boolean }): string {
  const renamed = name
    .replace(/\.input_layernorm\./, '.self_attention.linear_qkv.layer_norm_')
    .replace(/\.mlp\.experts\./, '.mlp.experts.experts.');
  return hasExperts ? renamed : renamed.replace(/\.pre_mlp_layernorm\./, '.mlp.linear_fc1.layer_norm_');
}
