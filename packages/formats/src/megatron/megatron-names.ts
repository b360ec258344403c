/**
 * Patterns in Megatron-LM's tensor names, and their replacements, which are applied in order and give our
 * names. Our names are Megatron-Core's names without Transformer Engine. (Transformer Engine moves norms into
 * the linear layers that follow them.) From 2019 to 2022, models were nested in `language_model`.
 */
const renamed: ReadonlyArray<readonly [pattern: RegExp, name: string]> = [
  [/^(module\.|model\.)+/, ''],
  [/^language_model\./, ''],
  [/^transformer\./, 'decoder.'],
  [/^word_embeddings_for_head\./, 'output_layer.'],
  // Transformer Engine's linear layers that contain a norm
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

/** Matches the names of ignored tensors: the state of fp8 kernels, and tensors that follow from the args. */
const ignored = /(^|\.)_extra_state(\/|$)|(^|\.)rotary_(pos_)?emb\.inv_freq$|\.attention\.(masked_)?bias$/;

/** The name of the list of layers in Megatron-LM's models: `decoder` in a GPT, `encoder` in a BERT. */
export type LayersName = 'decoder' | 'encoder';

/**
 * Returns our name for a tensor in a checkpoint. The layer index is the same as in the file, so it may be
 * local to a model chunk.
 *
 * @param layers our name for the list of layers; GPTs before Megatron-Core call it `encoder`
 * @returns undefined if the tensor is not a weight
 */
export function nameOfMegatron(name: string, layers: LayersName): string | undefined {
  if (ignored.test(name)) return undefined;
  const current = renamed.reduce((text, [pattern, replacement]) => text.replace(pattern, replacement), name);
  return current.replace(/^(decoder|encoder)\./, `${layers}.`);
}

/** Splits a name at its layer index; undefined if the name contains no layer. */
export function parseLayer(
  name: string,
): { readonly start: string; readonly layer: number; readonly rest: string } | undefined {
  const match = /^((?:decoder|encoder)\.layers\.)(\d{1,9})(\..+)$/.exec(name);
  return match === null ? undefined : { start: match[1]!, layer: Number(match[2]), rest: match[3]! };
}

/** A stored tensor of one expert, or of all experts on one rank. */
interface ExpertTensor {
  /** Our name for the tensor that contains all experts. */
  readonly name: string;
  /** The expert's index on its rank; undefined if the tensor contains all experts. */
  readonly expert: number | undefined;
  /**
   * The layout. `rows`: each expert is a matrix [outputs, inputs] or a vector. `view`: Megatron-LM's grouped
   * experts until 2025, whose shape is [inputs, experts * outputs] or [experts * inputs, outputs], but whose
   * values are in the order [experts, inputs, outputs].
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
 * Parses the name of an expert tensor in a checkpoint of the format `torch`. `name` is a result of
 * `nameOfMegatron`. Returns undefined for a tensor that contains no experts.
 */
export function parseExpertTensor(name: string): ExpertTensor | undefined {
  for (const [pattern, read] of ofExperts) {
    const match = pattern.exec(name);
    if (match !== null) return read(match);
  }
  return undefined;
}

/**
 * Returns the name that our tensor has in a checkpoint of the format `torch_dist`. This is Transformer
 * Engine's name, which every Megatron-Core can read, even without Transformer Engine.
 *
 * @param options.hasExperts true if the layer has experts. In this case, its norm is a separate layer
 */
export function formatMegatronName(name: string, { hasExperts }: { readonly hasExperts: boolean }): string {
  const renamed = name
    .replace(/\.input_layernorm\./, '.self_attention.linear_qkv.layer_norm_')
    .replace(/\.mlp\.experts\./, '.mlp.experts.experts.');
  return hasExperts ? renamed : renamed.replace(/\.pre_mlp_layernorm\./, '.mlp.linear_fc1.layer_norm_');
}
