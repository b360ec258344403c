import { recompute, type Tape, type Variable } from '@mtl/autograd';

/**
 * The modules that the recomputation granularity `selective` can recompute, with Megatron-LM's names. `moe`:
 * a mixture of experts except its router's expert assignment; `moe_act`: the activations of experts;
 * `shared_experts`: the shared experts; `core_attn`: attention between its projections. Attention never keeps
 * its scores, and the activations of experts are always recomputed.
 */
export const recomputableModules = ['core_attn', 'moe', 'moe_act', 'shared_experts'] as const;

export type RecomputableModule = (typeof recomputableModules)[number];

/**
 * Which activations are recomputed. With `full`, layers keep only their inputs, in one of Megatron-LM's two
 * methods: `uniform` recomputes groups of `numLayers` layers; `block` recomputes each of the first
 * `numLayers` layers, and the remaining layers keep their activations.
 */
export type Recomputation =
  | { readonly granularity: 'none' }
  | { readonly granularity: 'selective'; readonly modules?: readonly RecomputableModule[] | undefined }
  | { readonly granularity: 'full'; readonly method: 'uniform' | 'block'; readonly numLayers: number };

type Layer = (tape: Tape, input: Variable) => Variable;

/** Applies layers one after another with the given recomputation. Releases intermediate results early. */
export function applyLayers(
  tape: Tape,
  input: Variable,
  layers: readonly Layer[],
  recomputation: Recomputation,
): Variable {
  return tape.scope(() => {
    if (recomputation.granularity !== 'full') return applyAll(tape, input, layers);
    const { method, numLayers } = recomputation;
    if (method === 'block') {
      const first = layers
        .slice(0, numLayers)
        .reduce((hidden, layer) => recompute(tape, hidden, layer), input);
      return applyAll(tape, first, layers.slice(numLayers));
    }
    let hidden = input;
    for (let start = 0; start < layers.length; start += numLayers) {
      const group = layers.slice(start, start + numLayers);
      hidden = recompute(tape, hidden, (inner, groupInput) => applyAll(inner, groupInput, group));
    }
    return hidden;
  });
}

function applyAll(tape: Tape, input: Variable, layers: readonly Layer[]): Variable {
  let hidden = input;
  for (const layer of layers) {
    const before = hidden;
    hidden = layer(tape, before);
    // the tape keeps the values that the backward pass needs
    if (before !== input) before.release();
  }
  return hidden;
}
