/**
 * How ranks of tensor parallelism split a tensor in Megatron-LM.
 *
 * - `rows`: outputs of a column-parallel layer, rows of the vocabulary
 * - `gated-rows`: outputs of a SwiGLU layer: each rank has its gates, then its values
 * - `qkv-rows`: outputs for queries, keys and values, in an order that depends on the version
 * - `columns`: inputs of a row-parallel layer
 * - `none`: all ranks have the same
 */
export type TensorSplit = 'rows' | 'gated-rows' | 'qkv-rows' | 'columns' | 'none';

/** How a tensor with one of our names is split; of experts, each of them. */
export function splitOf(name: string, { isGated }: { readonly isGated: boolean }): TensorSplit {
  if (/\.self_attention\.linear_qkv\./.test(name)) return 'qkv-rows';
  if (/\.mlp\.(experts\.|shared_experts\.)?linear_fc1\./.test(name)) return isGated ? 'gated-rows' : 'rows';
  if (/^(embedding\.word_embeddings|output_layer)\./.test(name)) return 'rows';
  if (/\.(self_attention\.linear_proj|mlp\.(experts\.|shared_experts\.)?linear_fc2)\.weight$/.test(name))
    return 'columns';
  return 'none';
}
